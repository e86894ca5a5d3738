#include "experiments/support/report/sequence_report.h"

#include "experiments/support/report/html.h"
#include "experiments/support/report/learning_curves.h"

namespace fovea {

void write_report(const std::filesystem::path& path, const ReportedSequences& reported) {
  Report report(reported.program, reported.description);
  report.section("Test").add(reported.table);
  std::vector<CurveRuns> curves;
  for (const ReportedModel& model : reported.models) curves.push_back({model.title, model.runs});
  add_learning_curves(report, curves,
                      score_curves(curves, "dev_" + reported.dev_score, "Development set", {reported.dev_score}));
  report.section("Configuration").configuration(reported.configuration);
  report.write(path);
}

}  // namespace fovea
