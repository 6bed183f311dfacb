#include "backends/hdf5/library/text.h"

#include "base/utf8.h"

namespace codecfs::hdf5 {

std::string as_utf8(std::string_view bytes) {
  if (is_utf8(bytes)) return std::string(bytes);
  std::string text;
  for (const char byte : bytes) utf8_append(text, static_cast<unsigned char>(byte));
  return text;
}

}  // namespace codecfs::hdf5
