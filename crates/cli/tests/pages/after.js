// Runs when the page is there: looks at it as a reader would, and answers the page around it.
"use strict";
{
  // Smaller text is hard to read, and so is text of less contrast (WCAG 2.2, 1.4.3: 4.5).
  const SIZE = 11, CONTRAST = 4.5;
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const rgba = color => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = color;
    canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data];
  };
  const luminance = color => {
    const [r, g, b] = color.slice(0, 3).map(n => n / 255).map(n => n <= .04045 ? n / 12.92 : ((n + .055) / 1.055) ** 2.4);
    return .2126 * r + .7152 * g + .0722 * b;
  };
  const contrast = (one, other) => {
    const [dark, light] = [luminance(one), luminance(other)].sort((a, b) => a - b);
    return (light + .05) / (dark + .05);
  };
  const behind = element => {
    for (let e = element; e; e = e.parentElement) {
      const color = rgba(getComputedStyle(e).backgroundColor);
      if (color[3] === 255) return color;
    }
    return matchMedia("(prefers-color-scheme: dark)").matches ? [18, 18, 18] : [255, 255, 255];
  };
  const hasText = e => [...e.childNodes].some(n => n.nodeType === Node.TEXT_NODE && n.textContent.trim());
  const name = e => `<${e.localName}> "${e.textContent.trim().slice(0, 30)}"`;

  const readText = () => {
    for (const e of document.body.querySelectorAll("*")) {
      const style = getComputedStyle(e);
      if (!hasText(e) || ["script", "style", "title"].includes(e.localName) || style.display === "none") continue;
      const drawn = e instanceof SVGElement;
      // A picture that is scaled down scales its text.
      const matrix = drawn && e.getScreenCTM(), scale = drawn ? Math.hypot(matrix.a, matrix.b) : 1;
      const size = parseFloat(style.fontSize) * scale;
      if (size < SIZE - .05) faults.push(`${name(e)}: text of ${size.toFixed(1)} px`);
      const picture = drawn && e.ownerSVGElement.getBoundingClientRect(), box = e.getBoundingClientRect();
      if (drawn && (box.right > picture.right + 1 || box.left < picture.left - 1)) faults.push(`${name(e)}: leaves its picture`);
      const ratio = contrast(rgba(drawn ? style.fill : style.color), behind(e));
      if (ratio < CONTRAST - .05) faults.push(`${name(e)}: contrast ${ratio.toFixed(1)}`);
    }
  };

  // An element that is too wide must scroll by itself, not with the page.
  const measureWidth = () => {
    const width = document.documentElement.clientWidth;
    if (document.documentElement.scrollWidth <= width + 1) return;
    const scrolls = e => e && (["auto", "scroll", "hidden"].includes(getComputedStyle(e).overflowX) || scrolls(e.parentElement));
    const wide = [...document.body.querySelectorAll("*")].filter(e => e.getBoundingClientRect().right > width + 1 && !scrolls(e));
    faults.push(`wider than ${width} px: ${wide.slice(0, 3).map(name).join(", ")}`);
  };

  // The lanes of a run: the wheel zooms, a double click goes back, the pointer asks for a block, the legend hides.
  const useLanes = lanes => {
    const box = lanes.getBoundingClientRect(), at = document.getElementById("tip");
    const send = (target, kind, more) => target.dispatchEvent(new (more && "deltaY" in more ? WheelEvent : MouseEvent)(
      kind, { bubbles: true, cancelable: true, clientX: box.left + box.width / 2, clientY: box.top + 36, ...more }));
    const shown = () => lanes.toDataURL();
    const first = shown();
    send(lanes, "wheel", { deltaY: -100 });
    const near = shown();
    if (near === first) faults.push("the wheel does not zoom");
    send(lanes, "mousedown", {});
    send(lanes, "mousemove", { clientX: box.left + box.width / 2 - 60 });
    send(window, "mouseup", {});
    if (shown() === near) faults.push("the lanes cannot be dragged");
    send(lanes, "dblclick", {});
    if (shown() !== first) faults.push("a double click does not show everything again");
    let found = false;
    for (let y = box.top + 26; y < box.bottom && !found; y += 4)
      for (let x = box.left + 60; x < box.right && !found; x += 2) {
        send(lanes, "mousemove", { clientX: x, clientY: y });
        found = at.style.display === "block";
        const tip = at.getBoundingClientRect();
        if (found && !/^thread \d/.test(at.textContent)) faults.push(`the tip says "${at.textContent}"`);
        if (found && (tip.right > innerWidth + 1 || tip.bottom > innerHeight + 1)) faults.push("the tip leaves the window");
      }
    if (!found) faults.push("no block has a tip");
    // At the right edge, where the tip has no room beside the pointer.
    for (let y = box.top + 26; y < box.bottom; y += 4) {
      send(lanes, "mousemove", { clientX: box.right - 3, clientY: y });
      const tip = at.getBoundingClientRect();
      if (at.style.display === "block" && tip.right > innerWidth + 1) { faults.push("the tip leaves the window"); break; }
    }
    send(lanes, "mouseleave", {});
    if (at.style.display !== "none") faults.push("the tip stays");
    document.querySelector("#who span").click();
    if (shown() === first) faults.push("the legend does not hide a thread");
    document.querySelector("#who span").click();
    if (shown() !== first) faults.push("the legend does not show a thread again");
  };

  addEventListener("load", () => {
    readText();
    measureWidth();
    const lanes = document.getElementById("lanes");
    if (lanes) useLanes(lanes);
    const dark = matchMedia("(prefers-color-scheme: dark)").matches;
    parent.postMessage({ width: innerWidth, dark, faults: [...new Set(faults)] }, "*");
  });
}
