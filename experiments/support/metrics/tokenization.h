/// How metrics split text into words: each has its own way, and scores of different ones cannot be compared.
#pragma once
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace fovea {

enum class Tokenization {
  none,        ///< what lies between white space
  mteval_13a,  ///< NIST's mteval-v13a, sacreBLEU's 13a
  characters,  ///< every character that is no white space, sacreBLEU's char
};

/// The words with white space between.
std::string tokenized(std::string_view text, Tokenization how);

/// As sacreBLEU's signatures call it: none, 13a, char.
std::string name_of(Tokenization how);
/// All tokenizations with their names.
std::vector<std::pair<std::string, Tokenization>> named_tokenizations();
/// The tokenization with this name. Throws Error if there is none.
Tokenization tokenization_of(const std::string& name);

/// `high-quality` becomes `high ##AT##-##AT## quality`: the splitting of compounds that goes with tokenised BLEU on
/// WMT's English-German (tensor2tensor's get_ende_bleu.sh; \S-\S, byte by byte).
std::string split_compounds(std::string_view text);

}  // namespace fovea
