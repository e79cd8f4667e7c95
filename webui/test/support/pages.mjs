// Parts of the page, as tests find them.

export const chart = (page, name) => page.locator('figure.chart').filter({ has: page.getByRole('heading', { name, exact: true }) });

// The numbers behind a chart: rows of [what stands at the left, values...].
export async function numbers(figure) {
    const button = figure.getByRole('button', { name: 'Table' });
    if ((await button.getAttribute('aria-pressed')) !== 'true') await button.click();
    const rows = await figure.locator('.numbers tbody tr').evaluateAll((all) => all.map((r) => [...r.children].map((c) => c.textContent)));
    return rows.map(([at, ...values]) => [at, ...values.map((v) => Number(v.replace(/,/g, '').replace('−', '-').replace('e−', 'e-')))]);
}

// The text of the column with this title, from top to bottom.
export async function column(page, title) {
    const titles = await page.locator('thead th').allTextContents();
    const at = titles.findIndex((t) => t.replace(/[▾▴]/, '').trim() === title);
    if (at < 0) return [];
    return page.locator(`tbody tr[id] td:nth-child(${at + 1})`).allTextContents();
}

// How many curves a chart has.
export async function curveCount(figure) {
    return Number(/, (\d+)\./.exec((await figure.locator('.plot').getAttribute('aria-label')) ?? '')?.[1] ?? 0);
}

// An item of a menu that a button opens.
export async function choose(page, menu, item) {
    await page.getByRole('button', { name: menu }).first().click();
    await page.getByRole('menu').getByText(item, { exact: true }).click();
    await page.keyboard.press('Escape');
}
