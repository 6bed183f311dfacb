#include "filters/plugins/plugins.h"

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "base/log.h"
#include "base/parallel.h"
#include "filters/core/filter.h"
#include "filters/plugins/codec_workers.h"
#include "filters/plugins/foreign_filter.h"
#include "filters/plugins/forwarding_class.h"
#include "filters/plugins/lazy_calls.h"
#include "filters/plugins/plugin_class.h"
#include "filters/plugins/plugin_library.h"
#include "filters/plugins/plugin_path.h"
#include "filters/plugins/plugin_trust.h"

namespace codecfs::filters {
namespace {

// Most of the time of loading is spent waiting for other processes; a library that hangs must not delay the next one.
constexpr size_t kLoadedAtOnce = 16;

/// An HDF5 filter for libhdf5: of a library of this process, or the workers that calls are forwarded to.
struct LibraryFilter {
  std::shared_ptr<LazyCalls> own;
  std::shared_ptr<CodecWorkers> workers;
};

class Search {
 public:
  PluginSearch found;
  std::map<uint32_t, LibraryFilter> of_library;  // HDF5 filters in use
  /// The libraries in use.
  std::vector<Plugin> used;
  /// All that could be loaded.
  std::vector<AcceptedPlugin> accepted;

  void run(std::span<const std::string> directories) {
    for (const std::string& directory : directories) collect(directory);
    load_all();
    combine();
  }

  /// As run() of directories, without searching and loading: another process has done both.
  void run(std::vector<AcceptedPlugin> found_there) {
    for (AcceptedPlugin& plugin : found_there) {
      Loaded loaded;
      loaded.filter.own = std::make_shared<LazyCalls>(std::move(plugin.path), plugin.description.path);
      loaded.plugin = {std::move(plugin.description), loaded.filter.own};
      libraries_.push_back(std::move(loaded));
    }
    combine();
  }

 private:
  struct Loaded {
    Plugin plugin;
    LibraryFilter filter;
    mutable bool is_used = false;
  };

  /// Decides which library provides what.
  void combine() {
    for (const Loaded& loaded : libraries_) take(loaded);
    for (const Loaded& loaded : libraries_) {
      const std::vector<PluginDescription::Codec>& codecs = loaded.plugin.description.codecs;
      for (size_t i = 0; i < codecs.size(); ++i)
        if (codecs[i].is_default) halves_[codecs[i].hdf5_id].codec.try_emplace(loaded, i);
    }
    for (const auto& [id, halves] : halves_) register_pair(id, halves);
    for (const Loaded& loaded : libraries_)
      if (loaded.is_used) used.push_back(loaded.plugin);
  }

  struct CodecHalf {
    const Loaded* from = nullptr;
    size_t index = 0;
    void try_emplace(const Loaded& loaded, size_t codec) {
      if (from == nullptr) *this = {&loaded, codec};
    }
    [[nodiscard]] const std::string& path() const { return from->plugin.description.path; }
    [[nodiscard]] const PluginDescription::Codec& declared() const { return from->plugin.description.codecs[index]; }
  };
  struct Halves {
    const Loaded* hdf5 = nullptr;
    CodecHalf codec = {};
  };

  void set_aside(const std::string& path, std::string reason) {
    log::warning("plugin {}: {}", path, reason);
    found.set_aside.push_back({path, std::move(reason)});
  }
  /// For reasons that are not errors of the library.
  void not_needed(const std::string& path, std::string reason) { found.set_aside.push_back({path, std::move(reason)}); }

  void distrust(const std::string& path, const std::string& reason) {
    log::warning("plugins of {} are not loaded: {}", path, reason);
    found.untrusted.push_back({path, reason});
  }

  void collect(const std::string& directory) {
    const Result<std::vector<std::string>> files = plugin_files(directory);
    if (!files) {
      found.directories.push_back({directory, files.error().reason.substr(directory.size() + 2)});
      return;
    }
    if (const Result<std::string> trusted = trusted_path(directory); !trusted) {
      distrust(directory, trusted.error().reason);
      found.directories.push_back({directory, "not trusted: " + trusted.error().reason});
      return;
    }
    size_t plugins = 0;
    for (const std::string& file : *files) {
      Result<std::string> real = trusted_path(file);  // before the file is read
      if (!real) {
        distrust(file, real.error().reason);
        found.set_aside.push_back({file, real.error().reason});
        continue;
      }
      if (!names_a_plugin_interface(*real)) continue;
      paths_.push_back(*std::move(real));
      shown_.push_back(file);
      ++plugins;
    }
    found.directories.push_back({directory, fmt::format("{} plugin{}", plugins, plugins == 1 ? "" : "s")});
  }

  static Result<Loaded> open(const std::string& path, const std::string& shown) {
    Loaded loaded;
    CODECFS_ASSIGN(loaded.filter.workers, CodecWorkers::start(path, shown));
    loaded.plugin = {loaded.filter.workers->description(), loaded.filter.workers};
    return loaded;
  }

  void load_all() {
    std::vector<Result<Loaded>> opened(paths_.size());
    const Result<> done = parallel_for(paths_.size(), {.threads = kLoadedAtOnce}, [&](uint64_t i) -> Result<> {
      opened[i] = open(paths_[i], shown_[i]);
      return {};
    });
    for (size_t i = 0; i < paths_.size(); ++i) {
      if (!done && opened[i] && !opened[i]->filter.workers) opened[i] = std::unexpected(done.error());  // was not begun
      if (!opened[i]) {
        set_aside(shown_[i], opened[i].error().reason);
        continue;
      }
      for (const std::string& problem : opened[i]->plugin.description.problems) set_aside(shown_[i], problem);
      accepted.push_back({paths_[i], opened[i]->plugin.description});
      libraries_.push_back(*std::move(opened[i]));
    }
  }

  void take(const Loaded& loaded) {
    const PluginDescription& plugin = loaded.plugin.description;
    if (plugin.hdf5) {
      Halves& halves = halves_[plugin.hdf5->id];
      if (halves.hdf5 == nullptr)
        halves.hdf5 = &loaded;
      else
        not_needed(plugin.path,
                   fmt::format("filter {}: {} comes first", plugin.hdf5->id, halves.hdf5->plugin.description.path));
    }
    for (size_t i = 0; i < plugin.codecs.size(); ++i) {
      if (plugin.codecs[i].is_default) continue;
      CodecHalf& half = halves_[plugin.codecs[i].hdf5_id].codec;
      if (half.from == nullptr)
        half = {&loaded, i};
      else
        not_needed(plugin.path, fmt::format("codec '{}': {} comes first", plugin.codecs[i].id, half.path()));
    }
  }

  void register_pair(uint32_t id, const Halves& halves) {
    const FilterPtr known = find_registered(id);
    Filter filter = known != nullptr ? *known : Filter{.id = id};
    bool has_hdf5 = false;
    if (halves.hdf5 != nullptr) {
      const std::string& path = halves.hdf5->plugin.description.path;
      if (filter.make_coder) {
        not_needed(path, fmt::format("filter {} is built in (-o builtin=off:{} uses the plugin instead)", id, id));
      } else if (filter.in_libhdf5) {
        not_needed(path, fmt::format("filter {} is libhdf5's own", id));
      } else {
        add_hdf5_half(filter, halves.hdf5->plugin);
        of_library.emplace(id, halves.hdf5->filter);
        has_hdf5 = true;
      }
    }
    bool has_codec = false;
    if (const CodecHalf& half = halves.codec; half.from != nullptr) {
      const std::string& codec = half.declared().id;
      if (!filter.codec.empty()) {
        not_needed(half.path(), fmt::format("codec '{}' of filter {} is built in", codec, id));
      } else if (const FilterPtr other = find_registered(codec)) {
        not_needed(half.path(),
                   fmt::format("codec '{}' is that of filter {} ({}) already", codec, other->id, other->name));
      } else {
        add_codec_half(filter, half.from->plugin, half.index);
        has_codec = true;
      }
    }
    if (!has_hdf5 && !has_codec) return;
    if (filter.name.empty()) filter.name = name_for(id, halves);
    if (known != nullptr) (void)unregister_filter(id);
    if (Result<> registered = register_filter(std::move(filter)); !registered) {
      log::warning("plugins of filter {}: {}", id, registered.error().reason);
      return;
    }
    if (has_hdf5) halves.hdf5->is_used = true;
    if (has_codec) halves.codec.from->is_used = true;
  }

  /// The plugin's own name, unless another filter has it.
  static std::string name_for(uint32_t id, const Halves& halves) {
    std::string name =
        shown_name(halves.hdf5 != nullptr ? halves.hdf5->plugin.description.hdf5->name : halves.codec.declared().id);
    return name.empty() || is_registered_name(name) ? fmt::format("filter-{}", id) : name;
  }

  std::vector<std::string> paths_;  // without links, as they are loaded
  std::vector<std::string> shown_;  // as they were found
  std::vector<Loaded> libraries_;
  std::map<uint32_t, Halves> halves_;  // refer to libraries_, which is complete by then
};

struct State {
  Mutex mutex{LockRank::plugins};  // held while plugins are loaded
  std::vector<std::string> directories CODECFS_GUARDED_BY(mutex);
  bool refused CODECFS_GUARDED_BY(mutex) = false;
  PluginSearch found CODECFS_GUARDED_BY(mutex);
  std::function<std::vector<AcceptedPlugin>()> ask
      CODECFS_GUARDED_BY(mutex);  // in processes that call plugins themselves
  std::vector<AcceptedPlugin> accepted CODECFS_GUARDED_BY(mutex);
  std::vector<Plugin> used CODECFS_GUARDED_BY(mutex);
  std::map<uint32_t, LibraryFilter> of_library CODECFS_GUARDED_BY(mutex);
  std::atomic<bool> loaded = false;
};

State& state() {
  static auto& instance = *new State;  // never destroyed, like the registry
  return instance;
}

}  // namespace

void set_plugin_directories(std::vector<std::string> directories) {
  const LockGuard lock(state().mutex);
  state().directories = std::move(directories);
}

std::vector<std::string> searched_directories() {
  const LockGuard lock(state().mutex);
  return state().directories;
}

void refuse_plugins() {
  const LockGuard lock(state().mutex);
  state().refused = true;
}

bool plugins_are_refused() {
  const LockGuard lock(state().mutex);
  return state().refused;
}

bool plugins_are_loaded() { return state().loaded.load(std::memory_order_acquire); }

void load_plugins() {
  const LockGuard lock(state().mutex);
  if (plugins_are_loaded()) return;
  Search search;
  if (!state().refused && state().ask)
    search.run(state().ask());
  else if (!state().refused)
    search.run(state().directories);
  state().found = std::move(search.found);
  state().used = std::move(search.used);
  state().of_library = std::move(search.of_library);
  state().accepted = std::move(search.accepted);
  state().loaded.store(true, std::memory_order_release);
}

void finalize_plugins() {
  const LockGuard lock(state().mutex);
  for (const Plugin& plugin : state().used) plugin.calls->finalize();
}

std::vector<AcceptedPlugin> accepted_plugins() {
  load_plugins();
  const LockGuard lock(state().mutex);
  return state().accepted;
}

void use_plugins_in_process(std::function<std::vector<AcceptedPlugin>()> ask) {
  const LockGuard lock(state().mutex);
  state().ask = std::move(ask);
}

std::optional<H5Z_class2_t> plugin_class(uint32_t id) {
  const LockGuard lock(state().mutex);
  const auto found = state().of_library.find(id);
  if (found == state().of_library.end()) return std::nullopt;
  const Result<H5Z_class2_t> made =
      found->second.own != nullptr ? found->second.own->hdf5_class() : forwarding_class(found->second.workers);
  if (made) return *made;
  log::warning("filter {}: {}", id, made.error().reason);
  return std::nullopt;
}

PluginSearch plugin_search() {
  const LockGuard lock(state().mutex);
  PluginSearch search = state().found;
  for (const Plugin& plugin : state().used)
    if (std::string text = plugin.calls->state(); !text.empty())
      search.workers.push_back({plugin.description.path, std::move(text)});
  return search;
}

}  // namespace codecfs::filters
