/// How metrics split text into words. Scores with different tokenizations cannot be compared.
#pragma once
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace fovea {

enum class Tokenization {
  none,           ///< what lies between white space
  mteval_13a,     ///< NIST's mteval-v13a, sacreBLEU's 13a
  characters,     ///< every character that is no white space, sacreBLEU's char
  international,  ///< mteval-v14's international tokenization, sacreBLEU's intl
  chinese,        ///< Chinese characters are words of their own, the rest is as in 13a; sacreBLEU's zh
};

/// Returns the words with white space between them.
std::string tokenized(std::string_view text, Tokenization how);

/// The name in sacreBLEU's signatures: none, 13a, char, intl, zh.
std::string name_of(Tokenization how);
/// All tokenizations with their names.
std::vector<std::pair<std::string, Tokenization>> named_tokenizations();
/// The tokenization with this name. Throws Error if there is none.
Tokenization tokenization_of(const std::string& name);

/// Splits compounds, `high-quality` into `high ##AT##-##AT## quality`, as papers with tokenised BLEU on WMT's
/// English-German do (tensor2tensor's get_ende_bleu.sh: \S-\S, byte by byte).
std::string split_compounds(std::string_view text);

}  // namespace fovea
