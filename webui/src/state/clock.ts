// Unit clock.ts: the present time, for texts such as "4 min ago".
import { signal } from '@preact/signals';

export const now = signal(Date.now());

const tick = (): void => {
    if (document.visibilityState === 'visible') now.value = Date.now();
};
setInterval(tick, 5000);
document.addEventListener('visibilitychange', tick);
