/// Every specification that the registry can make, for tests of all of them.
#pragma once
#include <cstdlib>
#include <sstream>
#include <string>
#include <vector>

#include "attention/engine/attend.h"
#include "attention/layers/multi_head.h"
#include "attention/properties/cases.h"
#include "attention/registry.h"

namespace fovea::test {

using namespace properties;

/// specifications_of() for every method, then some combinations of methods. A new method of the registry is thus tested
/// without a new test. The environment variable FOVEA_TEST_METHODS, names separated by ';', selects methods; each of
/// them is then also tested in sums and on some heads.
inline std::vector<std::string> all_specifications() {
  std::vector<std::string> specifications;
  auto add = [&](const std::vector<std::string>& more) {
    specifications.insert(specifications.end(), more.begin(), more.end());
  };
  if (const char* chosen = std::getenv("FOVEA_TEST_METHODS")) {
    std::istringstream names(chosen);
    for (std::string name; std::getline(names, name, ';');) {
      const MethodEntry* entry = find_method(name);
      require(entry, "FOVEA_TEST_METHODS: no method '{}'", name);
      add(specifications_with_sums(*entry));
    }
    return specifications;
  }
  for (const MethodEntry& entry : registered_methods()) add(specifications_of(entry));
  for (const char* combination :
       {"window(segment=2)",
        "window(segment=3,use=additive)",
        "window(segment=2,mask=exact)",
        "window(pointer_scale=0.5)",
        "gaussian(window=layer,shared_width=true)",
        "gaussian(window=layer,epsilon=0)",
        "relative(clip=2)",
        "relative(clip=2)+gaussian(window=query)",
        "sliding(left=1,right=1)+window",
        "window(use=additive,mask=exact)+sliding(left=2,right=0)",
        "heads(global*1, gaussian*1)",
        "heads(relative*1, window*1)",
        "gaussian(heads=2)+window(use=additive,heads=1)",
        "sman(width=fixed,distance=1)",
        "dman(clip=2)",
        "dman(clip=2,log_floor=true)+gaussian(linear=true)",
        "heads(man*1, sman(width=fixed,distance=0)*1)",
        "activation(width=8)+dman(clip=3,heads=1)",
        "relative(clip=2)+gaussian(center_input=q+ctx)+activation(width=8)",
        "t5(buckets=4,max_distance=3)",
        "sliding(left=1,right=1)",
        "sliding(left=1,right=0)+sinks(tokens=1,logit=true)+alibi",
        "heads(sinks(logit=true)*1, sliding(left=0,right=2)*1)",
        "heads(sinks(logit=true)*1, sinks(logit=true)*1)",
        "soft_cap(cap=0.5)+alibi+man",
        "adaptive_span(ramp=2,longest=3)",
        "adaptive_span(ramp=2,longest=3,after_softmax=true)",
        "heads(adaptive_span(ramp=1.5,longest=4)*1, dman(clip=1)*1)",
        "heads(rotary*1, sliding(left=1,right=1)*1)",
        "rotary(pairs=halves)+t5+window",
        "additive(hidden=2)+gaussian",
        "general+sinks(tokens=1,logit=true)+sliding(left=1,right=1)",
        "location(longest=3)+alibi",
        "heads(additive*1, laplace*1)",
        "local_m(half_width=1)",
        "local_p(half_width=1)",
        "heads(dot+local_p(half_width=1,renormalize=true)*1, local_m(half_width=0)*1)",
        "heads(fine_grained*1, gaussian*1)",
        "heads(fine_grained*1, relative(clip=2)*1)",
        "fine_grained(hidden=3)+relative(clip=2)",
        "additive(hidden=2)+flexible(sigma=1,threshold=0.5)",
        "heads(gaussian+flexible(p_init=-1)*1, mean*1)",
        "fine_grained(hidden=2)+window+sinks(logit=true)",
        "heads(gaussian_location(learned=true)*1, global*1)",
        "heads(mean+sinks(logit=true)*1, laplace*1)+window",
        "average(multi_head(global), multi_head(gaussian))",
        "concat(multi_head(relative(clip=2)+window), multi_head(dman(clip=2), heads=1))",
        "concat(multi_head(rotary+local_p(half_width=1), heads=3, output=false), "
        "average(multi_head(t5(layers=1), heads=1), multi_head(laplace)))",
        "concat(multi_head(additive+gaussian, heads=3), multi_head(alibi, heads=1), "
        "head_input=split)",
        "multi_head(heads(local_p(half_width=1)*1, man*1))",
        "pointwise('z - exp(slope) * abs(j - i)', slope=head)",
        "pointwise('where(j <= i, tanh(z) * key + table, z - pair * query ** 2)', key=key, "
        "table=offset:2, pair=pair, query=query)+window",
        "pointwise('w * sigmoid(a - 0.5 * abs(j - i)) * (1 - near / (1 + (j - i) ** 2))', a=query, "
        "near=head, heads=2)+relative(clip=2)",
        "sliding(left=1,right=1)+pointwise('w * (a + sqrt(1.5 - abs(j - i)))', a=head)",  // NaN where no query looks
        "classic(gaussian+gate+rotary, heads=2)",
        "classic(heads(additive+window*1, pointwise('z + a', a=offset:1)*1), heads=2)",
        "sparsemax+window",
        "heads(sparsemax*1, global*1)",
        "heads(sparsemax*1, laplace*1)+gaussian",
        "sparsemax+sinks(tokens=1,logit=true)+sliding(left=1,right=1)",
        "fine_grained(hidden=2)+sparsemax",
        "talking_heads+relative(clip=2)",
        "man+talking_heads",
        "heads(sliding(left=1,right=1)+sinks(logit=true)*1, global*1)+talking_heads",
        "general+flexible(sigma=1,threshold=0.5)+talking_heads",
        "differential+gaussian",
        "differential+rotary+sparsemax",
        "heads(differential*1, fine_grained(hidden=2)*1)",
        "differential(heads=1)+rotary(heads=2)+talking_heads+sinks(logit=true)",
        "gate+relative(clip=2)+activation(width=8)",
        "heads(gate*1, gaussian*1)",
        "grouped+rotary+gaussian(heads=2)",
        "grouped+rotary(heads=2)+gaussian(window=layer)",
        "grouped+relative(clip=2)+activation(width=8)",
        "concat(multi_head(grouped+gate, heads=3), multi_head(differential))",
        "forgetting+sliding(left=2,right=0)",
        "heads(forgetting*1, forgetting+alibi*1)",
        "cope(longest=1)",
        "cope(longest=2)+gaussian",
        "cope(longest=3)+soft_cap(cap=0.5)+sliding(left=1,right=0)",
        "heads(cope(longest=2)*1, fine_grained(hidden=2)*1)",
        "persistent(vectors=2)+window",
        "heads(persistent(vectors=3)*1, persistent(vectors=1)*1)",
        "heads(persistent(vectors=2)*1, fine_grained(hidden=2)+sinks(logit=true)*1)",
        "light_convolution(width=1)",
        "light_convolution(width=4)",
        "light_convolution(width=4,dynamic=true)",
        "heads(gaussian*1, light_convolution(width=2)*1)",
        "heads(light_convolution(width=3)*1, linear*1)",
        "heads(linear*1, global*1)",
        "heads(fine_grained(hidden=2)*1, linear*1)",
        "window(pointers=given,segment=2)",
        "window(pointers=given,mask=exact,renormalize=true)+gaussian",
        "window(pointers=given,use=additive,segment=2)",
        "relative_2d(clip=2)+fine_grained(hidden=2)",
        "relative_2d(clip=1)+relative(clip=2)+sliding(left=1,right=2)",
        "sliding(left=1,right=1,dilation=2)",
        "sliding(left=2,right=0,dilation=2)+sinks(tokens=1,logit=true)+alibi",
        "heads(sliding(left=1,right=1,dilation=3)+relative(clip=2)*1, gaussian*1)",
        "sliding(left=3,right=1,dilation=2,heads=2)+t5+talking_heads",
        "sliding(left=1,right=1,heads=1)+sliding(left=1,right=2,dilation=2,heads=2)+"
        "window(heads=2)+gaussian",
        "heads(sliding(left=1,right=1)*1, sliding(left=1,right=1,dilation=2)*1)+dman(clip=2)",
        "sliding(dilation=2)+sliding(dilation=3)+differential+persistent(vectors=2)",
        "grouped+sliding(left=1,right=0,dilation=2)+rotary",
        "concat(multi_head(sliding(left=1,right=1,dilation=2)+general, heads=1), "
        "multi_head(location(longest=3)+sliding(left=0,right=1)))"})
    specifications.emplace_back(combination);
  return specifications;
}

}  // namespace fovea::test
