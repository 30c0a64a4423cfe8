// The page API: filters calls and forms, opens what an address names, copies lines.
"use strict";

(() => {
  const filter = rota.one("[data-filter]"), count = rota.one("[data-count]");
  const calls = rota.all(".call"), groups = rota.all(".group");

  function sift() {
    const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const call of calls) {
      call.hidden = !words.every((word) => call.dataset.text.includes(word));
      shown += call.hidden ? 0 : 1;
    }
    for (const group of groups) group.hidden = !rota.all(".call", group).some((call) => !call.hidden);
    count.textContent = words.length ? `${shown} of ${calls.length}` : "";
  }

  function open() {
    const named = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (!named || !named.matches(".call")) return;
    if (named.hidden) {
      filter.value = "";
      sift();
    }
    named.open = true;
    named.scrollIntoView();
  }

  filter.addEventListener("input", sift);
  window.addEventListener("hashchange", open);
  document.addEventListener("click", async (event) => {
    const button = event.target.closest("[data-copy]");
    if (!button) return;
    try {
      await navigator.clipboard.writeText(rota.one("pre", button.parentElement).textContent);
      rota.toast("Copied");
    } catch (_) {
      getSelection().selectAllChildren(rota.one("pre", button.parentElement));
      rota.toast("Selected: copy it with Ctrl-C");
    }
  });
  open();
})();
