// SPDX-License-Identifier: Apache-2.0
// The report as one page for a browser: the files of quantize/page and the JSON, and nothing that lies elsewhere.
#include "quantize/report/report.h"
#include "report_page.h"

namespace quarry::quantize {

String report_html(const Report &report) {
  String out(page::kPageBefore);
  // Nothing within a script element may look like the element's end.
  for (const char c : report_json(report))
    if (c == '<') out += "\\u003c";
    else out += c;
  return out += page::kPageAfter;
}

}  // namespace quarry::quantize
