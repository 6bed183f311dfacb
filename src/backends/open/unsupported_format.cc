#include "backends/open/unsupported_format.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <span>

#include "backends/api/file_names.h"
#include "backends/open/formats.h"
#include "base/ascii.h"

namespace codecfs {
namespace {

using std::string_view_literals::operator""sv;

/// A format that is recognised but not supported.
struct UnsupportedFormat {
  std::string_view signature;  // the first bytes of the file
  const char* what;            // the name of the format and what to do
};

constexpr size_t kDataFormats = 5;  // those of scientific data come first
constexpr UnsupportedFormat kUnsupported[] = {
    {"CDF\001"sv, "a netCDF-3 classic file; make it a netCDF-4 file with: nccopy -k nc4 FILE NEW.nc"},
    {"CDF\002"sv, "a netCDF-3 file with 64-bit offsets; make it a netCDF-4 file with: nccopy -k nc4 FILE NEW.nc"},
    {"CDF\005"sv, "a netCDF-3 CDF-5 file; make it a netCDF-4 file with: nccopy -k nc4 FILE NEW.nc"},
    {"GRIB"sv, "a GRIB file; make it a netCDF-4 file, for instance with: cdo -f nc4 copy FILE NEW.nc"},
    {"\016\003\023\001"sv, "an HDF4 file; make it an HDF5 file with: h4toh5convert FILE NEW.h5"},
    {"\x93NUMPY"sv, "a NumPy array file; np.load(FILE, mmap_mode=\"r\") reads it as it is"},
    {"<!DOCTYP"sv, "a page of HTML and no data, perhaps that of a login or an error"},
    {"<!doctyp"sv, "a page of HTML and no data, perhaps that of a login or an error"},
    {"<html"sv, "a page of HTML and no data, perhaps that of a login or an error"},
    {"\x1F\x8B"sv, "a file compressed with gzip; unpack it with gunzip"},
    {"BZh"sv, "a file compressed with bzip2; unpack it with bunzip2"},
    {"\x28\xB5\x2F\xFD"sv, "a file compressed with zstd; unpack it with unzstd"},
    {"\xFD"
     "7zXZ"sv,
     "a file compressed with xz; unpack it with unxz"},
};

const char* unsupported_of(std::string_view start, std::span<const UnsupportedFormat> formats) {
  for (const UnsupportedFormat& format : formats)
    if (start.starts_with(format.signature)) return format.what;
  return nullptr;
}

}  // namespace

const char* const kTarArchive =
    "a tar archive; unpack it with: tar -xf FILE, and name what is in it (a Zarr store can be read in a zip archive: "
    "zip -r -0 NEW.zip STORE)";

// Source: POSIX, pax, "ustar Interchange Format": the sum of all bytes of the header, as octal digits, where the field
// itself counts as spaces. Some old programs add signed bytes.
bool is_tar(int fd) {
  constexpr size_t kBlock = 512;
  constexpr size_t kSumAt = 148;
  constexpr size_t kSumBytes = 8;
  std::array<unsigned char, kBlock> block{};
  if (::pread(fd, block.data(), block.size(), 0) != ssize_t{kBlock}) return false;
  const std::span field = std::span(block).subspan(kSumAt, kSumBytes);
  const auto digits = std::ranges::find_if(field, [](unsigned char c) { return c != ' '; });
  const auto end = std::find_if(digits, field.end(), [](unsigned char c) { return c < '0' || c > '7'; });
  if (digits == end || (end != field.end() && *end != ' ' && *end != '\0')) return false;
  int told = 0;
  std::for_each(digits, end, [&](unsigned char c) { told = told * 8 + (c - '0'); });
  std::ranges::fill(field, ' ');
  int sum = 0;
  int signed_sum = 0;
  for (const unsigned char c : block) {
    sum += c;
    signed_sum += static_cast<signed char>(c);
  }
  return told == sum || told == signed_sum;
}

const char* unsupported_start(std::string_view start) { return unsupported_of(start, kUnsupported); }

std::optional<std::string> unsupported_start(std::string_view start, std::string_view name) {
  const char* const what = unsupported_start(start);
  if (what == nullptr) return std::nullopt;
  const std::string lower = lower_case(name.substr(name.rfind('/') + 1));
  const auto has = [&](std::string_view ending) { return lower.ends_with(ending); };
  constexpr std::string_view kCompressed = "a file compressed with ";
  const bool is_tar_name =
      lower.contains(".tar.") || has(".tgz") || has(".tbz2") || has(".tbz") || has(".txz") || has(".tzst");
  const std::string_view text = what;
  if (!text.starts_with(kCompressed) || !is_tar_name) return std::string(text);
  return fmt::format("a tar archive compressed with {}; unpack it with: tar -xf FILE, and name what is in it",
                     text.substr(kCompressed.size(), text.find(';') - kCompressed.size()));
}

std::optional<std::string> unsupported_format(int fd, std::string_view name) {
  char start[8] = {};
  const ssize_t count = ::pread(fd, start, sizeof start, 0);
  struct stat status;
  if (count < 0 || ::fstat(fd, &status) != 0 || dataset_kind(fd, status)) return std::nullopt;
  const std::string_view begin(start, static_cast<size_t>(count));
  if (const char* what = unsupported_of(begin, std::span(kUnsupported).first(kDataFormats)))
    return fmt::format("is {}", what);
  if (is_tar(fd)) return fmt::format("is {}", kTarArchive);
  if (!has_hdf5_name(name)) return std::nullopt;
  if (begin.empty()) return "has the name of an HDF5 or netCDF file, and is empty";
  return "has the name of an HDF5 or netCDF file, but no HDF5 signature: it is damaged or of another format";
}

}  // namespace codecfs
