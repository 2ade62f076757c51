#include "base/json.h"
#include "report/page_data.h"
#include "report/plan/plan_html_page.h"
#include "report/plan/plan_views.h"

namespace headroom::report {

Result<std::string> plan_to_html(const PlanReport& report) {
  return page_with_data(plan_html_page(), data_element("plan", to_line(plan_to_json(report))));
}

}  // namespace headroom::report
