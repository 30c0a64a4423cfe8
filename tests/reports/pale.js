// Texts of a page that do not stand out enough from what is behind them, as WCAG AA counts.
() => {
  const channel = (v) => ((v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
  const light = ([r, g, b]) => 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
  const parse = (text) => { const n = text.match(/[\d.]+/g).map(Number); return n.length > 3 ? n : [...n, 1]; };
  const over = (top, below) => [0, 1, 2].map((i) => top[i] * top[3] + below[i] * (1 - top[3]));
  const behind = (element) => {
    const layers = [];
    for (let at = element; at; at = at.parentElement) layers.push(parse(getComputedStyle(at).backgroundColor));
    return layers.reverse().reduce((below, layer) => over(layer, below), [255, 255, 255]);
  };
  const pale = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    if (!walker.currentNode.textContent.trim() || element.closest("script, .unseen, option")) continue;
    if (!element.checkVisibility({ visibilityProperty: true })) continue;
    const style = getComputedStyle(element), back = behind(element);
    let alpha = 1;
    for (let at = element; at; at = at.parentElement) alpha *= +getComputedStyle(at).opacity;
    const ink = parse(style.color);
    const front = over([...ink.slice(0, 3), ink[3] * alpha], back);
    const [a, b] = [light(front), light(back)].sort((p, q) => q - p);
    const size = parseFloat(style.fontSize), least = size >= 24 || (size >= 18.66 && +style.fontWeight >= 700) ? 3 : 4.5;
    const ratio = (a + 0.05) / (b + 0.05);
    if (ratio < least) pale.push(`${ratio.toFixed(2)} ${element.className} ${walker.currentNode.textContent.trim().slice(0, 30)}`);
  }
  return pale;
}
