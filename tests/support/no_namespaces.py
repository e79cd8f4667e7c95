"""no_namespaces.py COMMAND...: runs it as another user, in a user namespace in which no further ones can be made, as some
systems have it for everybody. For root."""
import ctypes
import os
import sys

NEWUSER, NOBODY = 0x10000000, 65534
here = os.getpid()
ready, go = os.pipe(), os.pipe()
if os.fork() == 0:  # stays outside, where all users can be mapped
    os.read(ready[0], 1)
    for name in ('uid_map', 'gid_map'):
        with open(f'/proc/{here}/{name}', 'w') as f:
            f.write('0 0 65536')
    os.write(go[1], b'x')
    os._exit(0)
if ctypes.CDLL(None, use_errno=True).unshare(NEWUSER):
    sys.exit('cannot make a user namespace')
os.write(ready[1], b'x')
os.read(go[0], 1)
os.wait()
with open('/proc/sys/user/max_user_namespaces', 'w') as f:
    f.write('0')
os.setgroups([])
os.setgid(NOBODY)
os.setuid(NOBODY)
os.execvp(sys.argv[1], sys.argv[1:])
