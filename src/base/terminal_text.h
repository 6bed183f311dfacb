#pragma once
// Text from files and other processes, for logs and terminals. Thread-safe.

#include <cstddef>
#include <string>
#include <string_view>

namespace codecfs {

/// The text in one line of valid UTF-8 that a terminal only shows: line breaks and tabs become spaces, other control
/// characters (C0, DEL, C1) and those that change the direction of writing become '?', bytes that are not UTF-8 U+FFFD.
std::string printable(std::string_view text);

/// The width of a terminal, 80 columns if it does not tell; 0 if the file descriptor is none.
size_t terminal_columns(int fd);

/// The columns that a printable text takes on a terminal: 2 for each wide character (East Asian, emoji), 0 for
/// combining marks.
size_t columns_of(std::string_view text);

/// A printable text in at most so many columns; a longer one ends with an ellipsis. At least 1 column.
std::string cut_to(std::string_view text, size_t columns);

/// A printable text in lines of at most so many columns, broken at spaces where there are some; lines from the second
/// on begin with `indent`. Without a newline at the end. 0 columns: no limit.
std::string wrap_to(std::string_view text, size_t columns, std::string_view indent);

}  // namespace codecfs
