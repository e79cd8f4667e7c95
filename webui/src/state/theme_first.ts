// Unit theme_first.ts: sets the theme that was chosen before anything is drawn. A script of its own, since the
// policy of the page forbids scripts inside HTML.
const chosen = localStorage.getItem('det.theme');
if (chosen === 'light' || chosen === 'dark') document.documentElement.dataset.theme = chosen;
