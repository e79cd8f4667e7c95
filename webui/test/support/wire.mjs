// A wire between a browser and a master that can be cut, or go dead: connections look open, and nothing comes.
import { createServer, connect } from 'node:net';

export class Wire {
    constructor(master) {
        this.port = master.port;
        this.pairs = new Set();
        this.isCut = false;
        this.server = createServer((near) => this.join(near));
    }

    async open() {
        await new Promise((resolve) => this.server.listen(0, '127.0.0.1', resolve));
        this.url = `http://127.0.0.1:${this.server.address().port}`;
        return this;
    }

    join(near) {
        if (this.isCut) {
            near.destroy();
            return;
        }
        const far = connect(this.port, '127.0.0.1'), pair = { near, far };
        this.pairs.add(pair);
        near.pipe(far);
        far.pipe(near);
        const end = () => { near.destroy(); far.destroy(); this.pairs.delete(pair); };
        for (const s of [near, far]) s.on('error', end).on('close', end);
    }

    cut() {
        this.isCut = true;
        for (const { near, far } of this.pairs) { near.destroy(); far.destroy(); }
    }

    mend() {
        this.isCut = false;
    }

    // What is open stays so, and says nothing any more.
    deaden() {
        for (const { near, far } of this.pairs) { near.unpipe(far); far.unpipe(near); near.pause(); far.pause(); }
    }

    close() {
        this.server.close();
        this.cut();
    }
}
