// The mean or the greatest (HOW) of the points in each bin of a region, each between four pixels. A region names
// its image; one that is not there is taken at the edge. RATIO points a side, or 0: as many as a bin has pixels.
__kernel void KERNEL(ARGUMENTS) {
  uint g = (uint)get_global_id(0);
  if (g >= COUNT) return;
  COORDINATES
  const int image = clamp((int)LOAD2(AT2), 0, IMAGES - 1), at = AT0 + image * X_IMAGE, roi = AT1;
  const float off = HALF ? 0.5f : 0.0f, scale = as_float(SCALE);
  const float left = LOAD1(roi) * scale - off, top = LOAD1(roi + ROI_STEP) * scale - off;
  float width = LOAD1(roi + 2 * ROI_STEP) * scale - off - left, height = LOAD1(roi + 3 * ROI_STEP) * scale - off - top;
  if (!HALF) width = max(width, 1.0f), height = max(height, 1.0f);
  const float bin_y = height / DIM_2, bin_x = width / DIM_3;
  const int rows = RATIO ? RATIO : clamp((int)ceil(bin_y), 0, 4096), columns = RATIO ? RATIO : clamp((int)ceil(bin_x), 0, 4096);
  float sum = 0, greatest = -QR_INFINITY;
  for (int i = 0; i < rows; ++i)
    for (int j = 0; j < columns; ++j) {
      float y = top + c2 * bin_y + (i + 0.5f) * bin_y / rows, x = left + c3 * bin_x + (j + 0.5f) * bin_x / columns;
      if (!(y >= -1 && y <= IN_0 && x >= -1 && x <= IN_1)) {
        greatest = fmax(greatest, 0.0f);
        continue;
      }
      y = max(y, 0.0f), x = max(x, 0.0f);
      const int y0 = min((int)y, IN_0 - 1), x0 = min((int)x, IN_1 - 1), y1 = min(y0 + 1, IN_0 - 1), x1 = min(x0 + 1, IN_1 - 1);
      const float fy = y0 == y1 ? 0 : y - y0, fx = x0 == x1 ? 0 : x - x0;
      // What has a weight of 0 is not looked at: it may be an infinity.
      const float a = (1 - fy) * (1 - fx) * LOAD0(at + y0 * X_0 + x0 * X_1),
                  b = fx == 0 ? 0 : (1 - fy) * fx * LOAD0(at + y0 * X_0 + x1 * X_1),
                  c = fy == 0 ? 0 : fy * (1 - fx) * LOAD0(at + y1 * X_0 + x0 * X_1),
                  d = fx == 0 || fy == 0 ? 0 : fy * fx * LOAD0(at + y1 * X_0 + x1 * X_1);
      sum += a + b + c + d;
      greatest = fmax(greatest, fmax(fmax(a, b), fmax(c, d)));
    }
#if HOW == ROI_MODE_AVERAGE
  const T0 value = sum / max(rows * columns, 1);
#else
  const T0 value = rows <= 0 || columns <= 0 ? 0 : greatest;
#endif
  FINISH;
}
