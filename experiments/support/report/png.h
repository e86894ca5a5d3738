/// Maps of attention as PNG images: the cells alone, without words, for papers and slides that need pixels.
#pragma once
#include <string>

#include "experiments/support/report/svg.h"

namespace fovea {

/// The bytes of a PNG file with the maps side by side. A cell is `cell` pixels wide and high. Colours are those of the
/// light SVG: white to blue, negative values red, infinities and NaN grey. `comment` is stored in the file.
std::string png(const HeadMaps& maps, int cell = 16, const std::string& comment = "");

}  // namespace fovea
