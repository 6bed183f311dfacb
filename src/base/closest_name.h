#pragma once
// "Did you mean": the name that a misspelled word probably stands for.

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace codecfs {

/// The number of letters to insert, remove, replace or swap with their neighbour that makes one word the other. ASCII
/// letters are equal in both cases.
size_t edit_distance(std::string_view one, std::string_view other);

/// The name nearest to `word`, the first of equals: at most 1 edit away from a word of up to 4 letters, 2 from a longer
/// one, and fewer than the word has letters. Empty if there is none.
std::string_view closest_name(std::string_view word, std::span<const std::string_view> names);

/// The end of an error's reason: "; did you mean shuffle?". Empty if no name is near.
std::string did_you_mean(std::string_view word, std::span<const std::string_view> names);

}  // namespace codecfs
