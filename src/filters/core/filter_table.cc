#include "filters/core/filter_table.h"

#include <algorithm>
#include <array>
#include <vector>

#include "filters/core/filter.h"
#include "filters/plugins/plugins.h"

namespace codecfs::filters {
namespace {

constexpr size_t kColumns = 7;
using Row = std::array<std::string, kColumns>;

std::string origin_of(const Filter& filter) {
  const bool has_codec = !filter.codec.empty();
  const std::string hdf5 = filter.in_libhdf5             ? "libhdf5"
                           : !filter.make_coder          ? ""
                           : filter.hdf5_library.empty() ? "built-in"
                                                         : filter.hdf5_library;
  const std::string codec = !has_codec ? "" : filter.codec_library.empty() ? "built-in" : filter.codec_library;
  if (hdf5.empty() || codec.empty() || hdf5 == codec) return hdf5.empty() ? codec : hdf5;
  return hdf5 + " + " + codec;
}

std::string hdf5_side(const Filter& filter) {
  if (filter.in_libhdf5) return "read";
  if (!filter.make_coder) return "-";
  return filter.decodes && filter.encodes ? "read+write" : filter.decodes ? "read" : "write";
}

std::string status_of(const Filter& filter) {
  if (filter.in_libhdf5) return "usable in HDF5 files";
  if (!filter.make_coder) return fmt::format("not usable: no library has the HDF5 filter {}", filter.id);
  if (!filter.decodes) return "not usable: its library can only encode";
  if (filter.codec.empty()) return "usable in HDF5 files; has no Zarr codec";
  return filter.id == 0 ? "usable in Zarr stores; has no HDF5 filter" : "usable";
}

std::string print_rows(const std::vector<Row>& rows) {
  std::array<size_t, kColumns> widths{};
  for (const Row& row : rows)
    for (size_t i = 0; i < kColumns; ++i) widths[i] = std::max(widths[i], row[i].size());
  std::string text;
  for (const Row& row : rows) {
    for (size_t i = 0; i + 1 < kColumns; ++i) text += fmt::format("{:<{}}", row[i], widths[i] + 2);
    text += row.back() + "\n";
  }
  return text;
}

}  // namespace

std::string filter_table() {
  load_plugins();
  std::vector<Row> rows{{"# id", "name", "codec", "origin", "hdf5 side", "codec side", "status"}};
  const auto or_none = [](std::string text) { return text.empty() ? "-" : text; };
  for (const FilterPtr& filter : list())
    rows.push_back({filter->id == 0 ? "-" : fmt::format("{}", filter->id), filter->name, or_none(filter->codec),
                    or_none(origin_of(*filter)), hdf5_side(*filter), filter->codec.empty() ? "-" : "yes",
                    status_of(*filter)});
  std::string text = print_rows(rows);
  const PluginSearch search = plugin_search();
  for (const auto& [path, what] : search.directories) text += fmt::format("# searched {}: {}\n", path, what);
  if (plugins_are_refused())
    text += "# no plugins are loaded (-o plugins=off)\n";
  else if (search.directories.empty())
    text += "# no directory is searched for plugins (HDF5_PLUGIN_PATH, -o plugin_path=)\n";
  for (const auto& [path, state] : search.workers) text += fmt::format("# workers of {}: {}\n", path, state);
  for (const auto& [path, why] : search.set_aside) text += fmt::format("# not used {}: {}\n", path, why);
  return text;
}

}  // namespace codecfs::filters
