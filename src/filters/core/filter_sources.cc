// The register: https://github.com/HDFGroup/hdf5_plugins/blob/master/docs/RegisteredFilterPlugins.md

#include "filters/core/filter_sources.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <vector>

#include "filters/plugins/plugins.h"

namespace codecfs::filters {
namespace {

struct Entry {
  uint32_t id;
  std::string_view name;
  std::string_view debian;     // package with an HDF5 plugin; empty: none in Debian 12
  bool in_hdf5plugin;          // whether the Python package hdf5plugin contains it
  std::string_view elsewhere;  // its project
};

constexpr std::array kRegister{
    Entry{305, "LZO", "", false,
          "part of PyTables, not a plugin: re-encode the data with ptrepack (Debian: python3-tables)"},
    Entry{307, "bzip2", "codecfs-plugins or hdf5-filter-plugin", true, ""},
    Entry{32000, "LZF", "hdf5-plugin-lzf", false, ""},
    Entry{32001, "Blosc", "codecfs-plugins or hdf5-filter-plugin-blosc-serial", true, ""},
    Entry{32002, "MAFISC", "", false, "https://wr.informatik.uni-hamburg.de/research/projects/icomex/mafisc"},
    Entry{32003, "Snappy", "", false, "https://github.com/lucasvr/snappy-cuda"},
    Entry{32004, "LZ4", "codecfs-plugins or hdf5-filter-plugin", true, ""},
    Entry{32005, "APAX", "", false, "no longer available"},
    Entry{32006, "CBF", "", false, "https://github.com/yayahjb/cbflib"},
    Entry{32007, "JPEG-XR", "", false, "https://github.com/HDFGroup/hdf5_plugins"},
    Entry{32008, "bitshuffle", "", true, "https://github.com/kiyo-masui/bitshuffle"},
    Entry{32009, "SPDP", "", false, "https://userweb.cs.txstate.edu/~burtscher/research/SPDP"},
    Entry{32010, "LPC-Rice", "", false, "https://sourceforge.net/projects/lpcrice"},
    Entry{32011, "CCSDS-123", "", false, "https://sourceforge.net/projects/ccsds123-hdf-filter"},
    Entry{32012, "JPEG-LS", "", false, "https://sourceforge.net/projects/jpegls-hdf-filter"},
    Entry{32013, "ZFP", "hdf5-filter-plugin-zfp-serial", true, "https://github.com/LLNL/H5Z-ZFP"},
    Entry{32014, "fpzip", "", false, "https://github.com/LLNL/fpzip"},
    Entry{32015, "Zstandard", "codecfs-plugins", true, ""},
    Entry{32016, "B3D", "", false, "https://git.embl.de/balazs/B3D"},
    Entry{32017, "SZ", "", true, "https://github.com/szcompressor/SZ"},
    Entry{32018, "FCIDECOMP", "", true, "https://gitlab.eumetsat.int/open-source/data-tailor-plugins/fcidecomp"},
    Entry{32019, "JPEG", "", false, "https://github.com/HDFGroup/hdf5_plugins"},
    Entry{32020, "VBZ", "", false, "https://github.com/nanoporetech/vbz_compression"},
    Entry{32021, "FAPEC", "", false, "https://www.dapcom.es/get-fapec"},
    Entry{32022, "BitGroom", "", false, "https://github.com/ccr/ccr"},
    Entry{32023, "Granular BitRound", "", false, "https://github.com/ccr/ccr"},
    Entry{32024, "SZ3", "", true, "https://github.com/szcompressor/SZ3"},
    Entry{32025, "Delta-Rice", "", false, "https://gitlab.com/dgma224/deltarice"},
    Entry{32026, "Blosc2", "", true, "https://www.blosc.org"},
    Entry{32027, "FLAC", "", false, "https://github.com/xiph/flac"},
    Entry{32028, "H5Z-SPERR", "", true, "https://github.com/NCAR/H5Z-SPERR"},
    Entry{32029, "TERSE/PROLIX", "", false, "https://github.com/Senikm/trpx"},
    Entry{32030, "FFMPEG", "", false, "https://github.com/Cai-Lab-at-University-of-Michigan/ffmpeg_HDF5_filter"},
    Entry{32033, "HTJ2K", "", true, ""},
};
static_assert(std::ranges::is_sorted(kRegister, {}, &Entry::id));

constexpr std::string_view kHdf5plugin =
    "`pip install hdf5plugin`, whose directory (`python3 -c 'import hdf5plugin; print(hdf5plugin.PLUGIN_PATH)'`) "
    "-o plugin_path= takes";

}  // namespace

std::string where_to_get(uint32_t id) {
  if (id == 0) return {};
  const auto* const found = std::ranges::lower_bound(kRegister, id, {}, &Entry::id);
  if (found == kRegister.end() || found->id != id) {
    const bool may_be_registered = id > 511 && id < 32768;
    return may_be_registered
               ? fmt::format(
                     "if it is registered, https://github.com/HDFGroup/hdf5_plugins names the author of filter {}", id)
               : fmt::format("number {} is not a registered filter: ask the author of the file for the plugin", id);
  }
  std::string ways;
  const auto add = [&](std::string_view way) { ways += fmt::format("{}{}", ways.empty() ? "" : "; or ", way); };
  if (!found->debian.empty()) add(fmt::format("Debian package {}", found->debian));
  if (found->in_hdf5plugin) add(kHdf5plugin);
  if (!found->elsewhere.empty()) add(found->elsewhere);
  return fmt::format("it is {}: {}", found->name, ways);
}

std::string where_searched(uint32_t id) {
  if (plugins_are_refused()) return "no plugins are loaded (-o plugins=off)";
  const std::vector<std::string> directories = searched_directories();
  std::string advice;
  for (const auto& [path, why] : plugin_search().untrusted)
    advice += fmt::format("{}not {}, as {}", advice.empty() ? "" : "; ", path, why);
  if (const std::string where = where_to_get(id); !where.empty())
    advice += fmt::format("{}{}", advice.empty() ? "" : "; ", where);
  const std::string_view comma = advice.empty() ? "" : "; ";
  if (directories.empty())
    return fmt::format("no directory is searched for plugins (HDF5_PLUGIN_PATH, -o plugin_path=){}{}", comma, advice);
  return fmt::format("searched {}{}{}", fmt::join(directories, ", "), comma, advice);
}

}  // namespace codecfs::filters
