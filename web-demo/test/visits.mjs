// Pages at work, kept open for all tests that look at them, since kernels take a software adapter seconds to compile.

export const DESKTOP = { width: 1200, height: 900 };
export const PHONE = { width: 360, height: 740 };
export const ON_A_PHONE = {
  viewport: PHONE,
  colorScheme: 'dark',
  isMobile: true,
  hasTouch: true,
  deviceScaleFactor: 2,
};

/** Runs in the page before anything else: records how long each script took that delayed a frame. */
function observeScripts() {
  globalThis.late = [];
  const keep = (frames) => {
    for (const { scripts } of frames.getEntries()) {
      for (const { sourceURL, duration } of scripts)
        globalThis.late.push({ file: sourceURL.split('/').at(-1), duration });
    }
  };
  new PerformanceObserver(keep).observe({ type: 'long-animation-frame', buffered: true });
}

export const layerHasRun = (page) =>
  page.waitForFunction(() => Number(document.querySelector('#layer').dataset.runs) > 0);

const openDetails = (page) =>
  page.evaluate(() => document.querySelectorAll('details').forEach((part) => (part.open = true)));

/** A kept desktop page on which every section has something to show, for tests that only look at it. */
export function onADesktop(lab) {
  return lab.keep('desktop', async () => {
    const page = await lab.demo({ context: { viewport: DESKTOP, colorScheme: 'light' }, script: observeScripts });
    await layerHasRun(page);
    await page.locator('#train-start').click();
    await page.waitForFunction(() => Number(document.querySelector('#train').dataset.steps) >= 20);
    await page.locator('#train-start').click();
    await page.waitForFunction(() => document.querySelector('#train').dataset.trainState === 'paused');
    await openDetails(page);
    return page;
  });
}

/** A kept page on a phone, on which nothing has been trained yet. */
export function onAPhone(lab) {
  return lab.keep('phone', async () => {
    const page = await lab.demo({ context: ON_A_PHONE });
    await layerHasRun(page);
    await openDetails(page);
    return page;
  });
}
