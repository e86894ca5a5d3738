/// The version of fovea, for the records of runs.
#pragma once

namespace fovea {

extern const char* const version_text;  ///< of the project
extern const char* const commit_text;   ///< of the source tree; "-dirty": with changes

}  // namespace fovea
