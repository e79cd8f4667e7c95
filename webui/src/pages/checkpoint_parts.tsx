// Unit checkpoint_parts.tsx: the files of a checkpoint, and deleting it.
import { call } from '../api/client.ts';
import type { Checkpoint } from '../api/types.ts';
import { ask, attempt } from '../parts/dialog.tsx';
import { Said } from '../parts/text.tsx';
import { formatBytes, plural } from '../text/format.ts';

const fileUrl = (c: Checkpoint, name: string): string => `/api/v1/checkpoints/${c.uuid}/files/${name.split('/').map(encodeURIComponent).join('/')}`;

export async function deleteCheckpoint(c: Checkpoint, done: () => void): Promise<void> {
    if (!(await ask({ title: 'Delete the checkpoint?', text: `${c.uuid}, ${formatBytes(c.size)}. This cannot be undone.`, action: 'Delete', danger: true }))) return;
    if (await attempt(() => call('DELETE', `/checkpoints/${c.uuid}`), 'The checkpoint was deleted.')) done();
}

export function Files({ of: c, open }: { of: Checkpoint; open?: boolean }) {
    const files = Object.entries(c.resources ?? {});
    return (
        <details class="quiet" open={open}>
            <summary>{plural(files.length, 'file')}</summary>
            <ul>
                {files.map(([name, size]) => (
                    <li key={name}>{name.endsWith('/') ? <Said text={name} /> : <a href={fileUrl(c, name)} download><Said text={name} max={120} /></a>} <span class="num">{formatBytes(Number(size))}</span></li>
                ))}
            </ul>
        </details>
    );
}
