#!/usr/bin/env python3
"""A checkpoint goes from our trainer to torch, is trained on there, and comes back."""
import subprocess
import sys
import tempfile
from pathlib import Path

import torch
from torch import nn

N = 40
program = sys.argv[1]
x = torch.tensor([[((i * 37) % 101) / 50 - 1, ((i * 53) % 97) / 48 - 1] for i in range(N)])
y = (x[:, 0] < x[:, 1]).long()


def run(*paths):
    out = subprocess.run([program, *map(str, paths)], capture_output=True, text=True)
    if out.returncode:
        sys.exit(out.stderr)
    return [float(v) for v in out.stdout.split()]


def loss_of(net):
    net.eval()
    with torch.no_grad():
        return nn.functional.cross_entropy(net(x), y).item()


def check(what, ours, theirs):
    if abs(ours - theirs) > 1e-5 * (1 + abs(theirs)):
        sys.exit(f'{what}: {ours} here, {theirs} in torch')


net = nn.Sequential(nn.Linear(2, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 2))
opt = torch.optim.Adam(net.parameters(), lr=0.01)
sched = torch.optim.lr_scheduler.StepLR(opt, 4, 0.5)
with tempfile.TemporaryDirectory() as folder:
    ours, theirs, again = (Path(folder) / name for name in ('ours.pth', 'theirs.pth', 'again.pth'))
    loss, lr = run(ours)
    state = torch.load(ours)
    net.load_state_dict(state['model_state_dict'])
    opt.load_state_dict(state['optimizer_state_dict'])
    sched.load_state_dict(state['scheduler_state_dict'])
    check('loss of our checkpoint', loss, loss_of(net))
    check('learning rate of our checkpoint', lr, opt.param_groups[0]['lr'])
    net.train()
    for i in range(0, N, 8):
        nn.functional.cross_entropy(net(x[i:i + 8]), y[i:i + 8]).backward()
        opt.step()
        sched.step()
        opt.zero_grad()
    torch.save({'model_state_dict': net.state_dict(), 'optimizer_state_dict': opt.state_dict(),
                'scheduler_state_dict': sched.state_dict()}, theirs)
    loss, lr = run(again, theirs)
    check("loss of torch's checkpoint", loss, loss_of(net))
    check("learning rate of torch's checkpoint", lr, opt.param_groups[0]['lr'])
    a, b = torch.load(theirs), torch.load(again)
    for key, value in a['optimizer_state_dict']['state'][0].items():
        check(f'state {key}', float(torch.as_tensor(b['optimizer_state_dict']['state'][0][key]).sum()),
              float(torch.as_tensor(value).sum()))
print('accel_parity: a checkpoint went to torch and back')
