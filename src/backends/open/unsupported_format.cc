#include "backends/open/unsupported_format.h"

#include <fmt/format.h>
#include <unistd.h>

#include <span>

#include "backends/api/file_names.h"
#include "backends/open/formats.h"

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

const char* unsupported_start(std::string_view start) { return unsupported_of(start, kUnsupported); }

std::optional<std::string> unsupported_format(int fd, std::string_view name) {
  char start[8] = {};
  const ssize_t count = ::pread(fd, start, sizeof start, 0);
  struct stat status;
  if (count < 0 || ::fstat(fd, &status) != 0 || dataset_kind(fd, status)) return std::nullopt;
  const std::string_view begin(start, static_cast<size_t>(count));
  if (const char* what = unsupported_of(begin, std::span(kUnsupported).first(kDataFormats)))
    return fmt::format("is {}", what);
  if (!has_hdf5_name(name)) return std::nullopt;
  if (begin.empty()) return "has the name of an HDF5 or netCDF file, and is empty";
  return "has the name of an HDF5 or netCDF file, but no HDF5 signature: it is damaged or of another format";
}

}  // namespace codecfs
