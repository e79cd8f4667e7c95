"""A network that is slow, hangs or breaks, between a program and a server on this machine.

    with Proxy(server.port, delay=0.02) as p:    # 10 ms each way
        p.port
        p.hang(); p.resume()                     # nothing passes, and nobody is told
        p.cut()                                  # all connections break; new ones are taken
        p.refuse(); p.accept()                   # nor those
"""
import asyncio
import contextlib
import threading
import time


class Proxy:
    def __init__(self, port, delay=0.0, host='127.0.0.1', rate=None):
        """rate: bytes a second, of each connection and direction."""
        self.target, self.delay, self.rate = (host, port), delay / 2, rate
        self.loop = asyncio.new_event_loop()
        self.writers, self.n_bytes, self.n_connections = set(), 0, 0
        self.cut_after = None  # bytes from the client, after which a connection breaks
        self.is_refusing = False

    def __enter__(self):
        started = threading.Event()
        self.thread = threading.Thread(target=self._run, args=(started,), daemon=True)
        self.thread.start()
        started.wait()
        return self

    def __exit__(self, *_):
        self._do(self._stop)
        self.thread.join()

    def hang(self):
        self._do(self.passing.clear)

    def resume(self):
        self._do(self.passing.set)

    def cut(self):
        self._do(self._cut)

    def refuse(self):
        self.is_refusing = True
        self.cut()

    def accept(self):
        self.is_refusing = False

    def _do(self, what):
        done = threading.Event()

        def run():
            what()
            done.set()
        self.loop.call_soon_threadsafe(run)
        done.wait()

    def _cut(self):
        for writer in list(self.writers):
            writer.transport.abort()

    def _stop(self):
        self._cut()
        self.server.close()
        self.loop.stop()

    def _run(self, started):
        asyncio.set_event_loop(self.loop)
        self.passing = asyncio.Event()
        self.passing.set()
        self.server = self.loop.run_until_complete(asyncio.start_server(self._connect, '127.0.0.1', 0))
        self.port = self.server.sockets[0].getsockname()[1]
        started.set()
        self.loop.run_forever()
        tasks = asyncio.all_tasks(self.loop)
        for task in tasks:
            task.cancel()
        self.loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
        self.loop.close()

    async def _connect(self, reader, writer):
        self.n_connections += 1
        if self.is_refusing:
            writer.transport.abort()
            return
        try:
            there, back = await asyncio.open_connection(*self.target)
        except OSError:
            writer.transport.abort()
            return
        self.writers |= {writer, back}
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.gather(self._pump(reader, back, True), self._pump(there, writer, False))
        self.writers -= {writer, back}

    async def _pump(self, reader, writer, is_request):
        """What comes is passed on after the delay, in order."""
        queue = asyncio.Queue(256)

        async def deliver():
            while True:
                when, data = await queue.get()
                await asyncio.sleep(max(0, when - time.monotonic()))
                await self.passing.wait()
                if not data:
                    break
                writer.write(data)
                await writer.drain()
            with contextlib.suppress(OSError):
                writer.write_eof()
        sender = asyncio.ensure_future(deliver())
        n = 0
        try:
            while True:
                data = await reader.read(65536)
                n += len(data)
                self.n_bytes += len(data)
                if is_request and self.cut_after is not None and n > self.cut_after:
                    raise OSError('cut')
                if self.rate:
                    await asyncio.sleep(len(data) / self.rate)
                await queue.put((time.monotonic() + self.delay, data))
                if not data:
                    break
            await sender
        except (OSError, RuntimeError, asyncio.CancelledError):
            writer.transport.abort()
        finally:
            sender.cancel()
