#include "experiments/support/report/program_options.h"

#include "experiments/support/data/generated_text.h"
#include "tensor/error.h"

namespace fovea {

SequenceOptions sequence_defaults(const std::string& program) {
  SequenceOptions options;
  options.data.has_source = program != "language_model";
  options.data.generate = program == "translate"   ? generate_translation
                          : program == "summarize" ? generate_summaries
                                                   : generate_lines;
  require(program == "translate" || program == "summarize" || program == "language_model",
          "{}: expected one of translate, summarize or language_model", program);
  return options;
}

Json configuration_of(const std::string& program, const std::vector<std::string>& arguments) {
  if (program == "sentiment") {
    ClassifierOptions<SentimentOptions> options;
    return parse(options, program, arguments);
  }
  if (program == "agreement") {
    ClassifierOptions<AgreementOptions> options;
    return parse(options, program, arguments);
  }
  SequenceOptions options = sequence_defaults(program);
  return parse(options, program, arguments);
}

}  // namespace fovea
