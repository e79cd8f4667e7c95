// Unit worker.ts: the shared worker. A browser opens six connections to a host at most, so all tabs share one stream:
// each says which topics it wants, and hears everything.
import { EventFeed } from './feed.ts';

export interface TabMessage {
    topics?: string[];
    wake?: true;
    pong?: true;
    bye?: true;
}

interface Tab {
    port: MessagePort;
    topics: string[];
    heard: number;
}

const PING_MS = 20_000; // a tab that was closed does not say so

const tabs = new Set<Tab>();
let open = false;

const feed = new EventFeed((message) => {
    if (message.kind !== 'event') open = message.kind === 'open' || (open && message.kind === 'resync');
    for (const tab of tabs) tab.port.postMessage(message);
});

function retopic(): void {
    const topics = [...tabs].flatMap((tab) => tab.topics);
    if (topics.length) feed.set(topics);
    else feed.close();
}

function take(tab: Tab, message: TabMessage): void {
    tab.heard = Date.now();
    if (message.bye) {
        tabs.delete(tab);
        retopic();
    } else if (message.topics) {
        tabs.add(tab); // it may have been given up while it was frozen
        tab.topics = message.topics;
        if (open) tab.port.postMessage({ kind: 'open' });
        retopic();
    }
    if (message.wake) feed.wake();
}

setInterval(() => {
    const silent = [...tabs].filter((tab) => Date.now() - tab.heard > 3 * PING_MS);
    for (const tab of silent) tabs.delete(tab);
    if (silent.length) retopic();
    for (const tab of tabs) tab.port.postMessage({ kind: 'ping' });
}, PING_MS);

addEventListener('connect', (event) => {
    const port = (event as MessageEvent).ports[0]!;
    const tab: Tab = { port, topics: [], heard: Date.now() };
    tabs.add(tab);
    port.onmessage = ({ data }: MessageEvent<TabMessage>) => take(tab, data);
});
