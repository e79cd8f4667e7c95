// Unit welcome.tsx: what an empty list says.
import { Copy } from '../parts/text.tsx';
import { Empty } from '../parts/status.tsx';

const COMMANDS = [
    ['a program to run', "mkdir first && cd first && echo 'for i in 1 2 3; do echo step $i; sleep 1; done' > train.sh"],
    ['its configuration', "printf 'name: first\\nentrypoint: sh train.sh\\nsearcher: {name: single}\\n' > const.yaml"],
    ['hand both over, and follow', 'det experiment create const.yaml . -f'],
] as const;

export function Welcome({ filtered }: { filtered: boolean }) {
    if (filtered) return <Empty><p>No experiment is like that.</p><p><a href="/experiments">Show all</a></p></Empty>;
    return (
        <Empty>
            <h2>Nothing has run here yet</h2>
            <p>Three commands make a first experiment:</p>
            <ol class="commands">
                {COMMANDS.map(([what, command]) => (
                    <li key={command}><span class="quiet">{what}</span><code>{command}</code><Copy text={command} /></li>
                ))}
            </ol>
            <p>or <a href="/new">write a configuration</a> in the browser.</p>
        </Empty>
    );
}
