import { html } from "./vendor/preact-htm.js";
export function WhatIf() { return html`<h1>WhatIf</h1>`; }
