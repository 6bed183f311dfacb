#pragma once
// The plugins of this process: searched once, when the first unregistered filter is looked up. Worker processes load
// and call them (codec_workers.h), unless this process does it itself.
//
// For each filter, the first library in the order of directories (then of file names) provides the HDF5 filter, and the
// first one with a codec provides the codec; both belong together if they have the same HDF5 id. Registered filters
// (the built-in ones) stay; a plugin only adds the part that they lack.

#include <functional>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "filters/plugins/plugin_calls.h"

namespace codecfs::filters {

/// Sets where load_plugins() searches, as absolute paths. Must be called before the first filter is looked up. Default:
/// no directories.
void set_plugin_directories(std::vector<std::string> directories);
std::vector<std::string> searched_directories();
/// Makes load_plugins() load nothing, whatever the directories (-o plugins=off). Same restriction.
void refuse_plugins();
bool plugins_are_refused();

/// A library that was loaded in a process of its own and described.
struct AcceptedPlugin {
  std::string path;  // absolute, without links
  PluginDescription description;
};
/// In the order of the search, which runs if it did not.
std::vector<AcceptedPlugin> accepted_plugins();

/// Makes this process call plugins itself: it crashes if one of them does. For worker processes, which may do so. It
/// searches nothing, but uses what `ask` returns, and loads each library when it is first called. Same restriction.
void use_plugins_in_process(std::function<std::vector<AcceptedPlugin>()> ask);

/// Searches and registers the plugins at the first call; concurrent calls wait for it. The lookups of filter.h call it.
void load_plugins();
bool plugins_are_loaded();
/// Runs NCZ_codec_finalize of the libraries in use, in each process that has loaded them. After that no filter of a
/// plugin may be used.
void finalize_plugins();

/// Must be held while libhdf5 may call plugins of this process itself (in H5Dread): during its lifetime other threads
/// do not call them through us, except re-entrant ones. At most one per thread.
class PluginsHeld {
 public:
  PluginsHeld();
  ~PluginsHeld();
  PluginsHeld(const PluginsHeld&) = delete;
  PluginsHeld& operator=(const PluginsHeld&) = delete;

 private:
  const std::unique_lock<SharedMutex> lock_;
};

/// The outcome of the search.
struct PluginSearch {
  struct Note {
    std::string path;
    std::string text;
  };
  std::vector<Note> directories;  // "2 plugins", "No such file or directory"
  std::vector<Note> set_aside;    // libraries, or parts of them, that are not used, and why
  std::vector<Note> workers;      // libraries in use, and the state of the processes that run them
  std::vector<Note> untrusted;    // directories and libraries that are not used because other users can write to them
};
PluginSearch plugin_search();

}  // namespace codecfs::filters
