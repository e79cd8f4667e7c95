// Unit help.tsx: the keys that work here.
import { keysNow } from '../state/keys.ts';
import { Dialog } from './dialog.tsx';

export function Help({ close }: { close: () => void }) {
    return (
        <Dialog title="Keys" close={close}>
            <dl class="keys">
                {keysNow().map((k) => (
                    <div key={k.key}>
                        <dt>{k.key.split(' ').map((part, i) => <kbd key={i}>{part}</kbd>)}</dt>
                        <dd>{k.does}</dd>
                    </div>
                ))}
            </dl>
            <div class="buttons"><button type="button" autofocus onClick={close}>Close</button></div>
        </Dialog>
    );
}
