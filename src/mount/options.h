#pragma once
// The options of a mount. src/cli reads them from the command line.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "backends/api/adapted_source.h"
#include "backends/api/references.h"
#include "backends/api/source.h"
#include "backends/open/source_opener.h"
#include "base/log.h"
#include "fs/nodes/nodes.h"
#include "fs/passthrough/transport.h"
#include "model/limits.h"

namespace codecfs::mount {

/// Kerchunk references to the chunks of a source that readers name `url`, as JSON.
using ReferencesText = std::function<Result<std::string>(Source& source, const std::string& url)>;

struct Options {
  std::string source;
  std::string mountpoint;
  bool foreground = false;
  bool debug = false;                           // log every FUSE request
  uint64_t cache_bytes = uint64_t{64} << 20;    // -o cache=SIZE
  uint64_t max_chunk_bytes = kDefaultMaxChunk;  // -o max_chunk=SIZE
  bool read_only = false;                       // -o ro
  std::optional<fs::View> view;                 // -o view=NAME: what the root shows; default: fs::default_view()
  bool coherent = false;                        // -o coherent
  bool portable = false;                        // -o portable
  bool nodelete = false;                        // -o nodelete
  Adaptation adaptation;                        // -o strings=FORM, -o chunks=FORM: read-only if there is any
  SourceOptions sources;                        // -o isolate=HOW, index=SIZE, endpoint=URL, region=NAME, anon, ...
  std::optional<Follow> follow;                 // -o follow=HOW; default: beneath with allow_other, else all
  bool make_mountpoint = false;                 // -o mkdir
  bool nonempty = false;                        // -o nonempty
  unsigned idle_seconds = 0;                    // -o idle=SECONDS, 0: never
  std::string log_file;                         // -o log=FILE, absolute; empty: stderr or syslog
  log::Level log_level = log::Level::info;      // -o loglevel=LEVEL
  std::string create;                           // -o create=FORMAT: create the source if it does not exist
  uint64_t dirty_bytes = uint64_t{128} << 20;   // -o dirty=SIZE
  unsigned commit_seconds = 5;                  // -o commit=SECONDS
  unsigned threads = 0;                         // -o threads=N, 0: number of cores, at least 8
  // -o transport=HOW
  fs::Transport transport = fs::Transport::automatic;
  uint64_t passthrough_bytes = 0;  // -o passthrough_size=SIZE, 0: fs::memory_budget()
  ReferencesText references;       // for .codecfs/references.json; none: there is no such file
  std::vector<std::string> fuse;   // -o options passed to libfuse and the kernel
};

}  // namespace codecfs::mount
