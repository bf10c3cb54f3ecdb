// SPDX-License-Identifier: GPL-2.0 OR MIT
// Runs Perfetto's trace_processor (wasm, as the UI has it) under node, and speaks its RPC protocol
// (TraceProcessorRpcStream) over stdin and stdout: node trace-processor.cjs FOLDER-OF-THE-UI
const fs = require('fs');
const path = require('path');
const vm = require('vm');

const folder = process.argv[2];
const file = (url) => fs.readFileSync(path.join(folder, path.basename(String(url.url || url))));
const node = globalThis.process;

// It must take itself to be in a browser's worker.
Object.assign(globalThis, {
	self: globalThis,
	WorkerGlobalScope: function () {},
	location: { href: 'http://x/', protocol: 'http:', origin: 'http://x' },
	importScripts: () => {},
	XMLHttpRequest: class {
		open(method, url) {
			this.url = url;
		}
		setRequestHeader() {}
		send() {
			this.status = 200;
			this.response = file(this.url).buffer;
		}
	},
	fetch: async (url) => new Response(file(url), { headers: { 'Content-Type': 'application/wasm' } }),
});
console.log = console.warn = (...words) => node.stderr.write(words.join(' ') + '\n');
globalThis.process = undefined;
try {
	vm.runInThisContext(String(file('engine_bundle.js')), { filename: 'engine_bundle.js' });
} finally {
	globalThis.process = node;
}

const port = { postMessage: (bytes) => node.stdout.write(Buffer.from(bytes)), onmessage: null };
globalThis.onmessage({ data: port });
const queue = [];
const pump = () => {
	if (!port.onmessage) return setTimeout(pump, 10);
	while (queue.length) port.onmessage({ data: queue.shift() });
};
node.stdin.on('data', (data) => {
	queue.push(new Uint8Array(data));
	setTimeout(pump, 0);
});
node.stdin.on('end', () => node.exit(0));
