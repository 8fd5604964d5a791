import { html } from "./vendor/preact-htm.js";
export function Simulations() { return html`<h1>Simulations</h1>`; }
