# SPDX-License-Identifier: GPL-2.0 OR MIT
"""Opens a page in Chromium, does something there, and takes a picture: browser.py URL PNG [STEP]...

A step is "sleep SECONDS", "click X,Y", "shot PNG", or JavaScript, whose value is printed. Needs chromium, and websocket-client from PyPI.
"""
import base64
import json
import subprocess
import sys
import tempfile
import time
import urllib.request

import websocket

PORT = 9333


def tab():
    for _ in range(300):
        try:
            tabs = json.load(urllib.request.urlopen(f'http://127.0.0.1:{PORT}/json'))
            return next(tab for tab in tabs if tab['type'] == 'page')
        except (OSError, StopIteration):
            time.sleep(0.1)
    sys.exit('chromium does not answer')


class Page:
    def __init__(self):
        self.socket = websocket.create_connection(tab()['webSocketDebuggerUrl'], timeout=120)
        self.count = 0

    def call(self, method, **parameters):
        self.count += 1
        self.socket.send(json.dumps({'id': self.count, 'method': method, 'params': parameters}))
        while True:
            message = json.loads(self.socket.recv())
            if message.get('id') == self.count:
                return message['result']

    def shot(self, path):
        with open(path, 'wb') as file:
            file.write(base64.b64decode(self.call('Page.captureScreenshot')['data']))

    def step(self, step):
        word, _, rest = step.partition(' ')
        if word == 'sleep':
            time.sleep(float(rest))
        elif word == 'shot':
            self.shot(rest)
        elif word == 'click':
            x, y = map(float, rest.split(','))
            for kind in ('mousePressed', 'mouseReleased'):
                self.call('Input.dispatchMouseEvent', type=kind, x=x, y=y, button='left', clickCount=1)
        else:
            result = self.call('Runtime.evaluate', expression=step, returnByValue=True, awaitPromise=True)
            print(json.dumps(result['result'].get('value')))


def main():
    url, png, *steps = sys.argv[1:]
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        chromium = subprocess.Popen(
            ['chromium', '--headless=new', '--no-sandbox', '--disable-gpu', '--window-size=1500,900',
             f'--remote-debugging-port={PORT}', '--remote-allow-origins=*', f'--user-data-dir={folder}', 'about:blank'],
            stderr=subprocess.DEVNULL)
        try:
            page = Page()
            page.call('Page.enable')
            page.call('Page.navigate', url=url)
            time.sleep(3)
            for step in steps:
                page.step(step)
            page.shot(png)
        finally:
            chromium.terminate()
            chromium.wait()


main()
