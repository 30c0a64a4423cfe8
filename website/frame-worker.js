// A page that is read from a folder may start no worker.  There the search runs in a hidden frame instead.
"use strict";
(() => {
  if (location.protocol !== "file:") return;

  class FrameWorker extends EventTarget {
    constructor(url) {
      super();
      this.onmessage = null;
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.body.append(frame);
      this.inner = frame.contentWindow;
      const load = (source) => new Promise((done, failed) => {
        const script = this.inner.document.createElement("script");
        Object.assign(script, { src: source, onload: done, onerror: failed });
        this.inner.document.body.append(script);
      });
      // What a worker has and a window has not, or has otherwise.
      this.inner.importScripts = (...sources) =>
        sources.reduce((before, source) => before.then(() => load(new URL(source, url).href)), Promise.resolve());
      this.inner.postMessage = (data) => {
        const event = new MessageEvent("message", { data });
        this.dispatchEvent(event);
        if (this.onmessage) this.onmessage(event);
      };
      this.ready = load(new URL(url, location.href).href);
    }

    postMessage(data) {
      this.ready.then(() => this.inner.dispatchEvent(new this.inner.MessageEvent("message", { data })));
    }

    terminate() {
      this.inner.frameElement.remove();
    }
  }
  window.Worker = FrameWorker;
})();
