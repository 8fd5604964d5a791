import { html } from "./vendor/preact-htm.js";
export function History() { return html`<h1>History</h1>`; }
