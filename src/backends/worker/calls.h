#pragma once
// The calls of the process that runs libhdf5 for one file, over a Channel, one at a time: Message::kind is a Call, the
// head and bulk are its arguments, the answer's are its Result (base/rpc/calls.h). The first call is
// WorkerService::open().
//
// Over WorkerProcess::control both also send Notes, datagrams that are not answered.

#include <sys/stat.h>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "backends/api/source.h"
#include "backends/hdf5/source/isolated_source.h"
#include "backends/hdf5/wal/log_directories.h"
#include "base/fd_passing.h"
#include "base/log.h"
#include "base/result.h"
#include "base/rpc/calls.h"
#include "filters/plugins/codec_calls.h"
#include "model/messages.h"

namespace codecfs::worker {

struct OpenRequest {
  std::string path;
  hdf5::DirectoryState beside;  // see state_without_logs()
  bool may_write = false;
  bool latest = false;                              // Hdf5Options::latest
  std::vector<std::pair<uint64_t, Error>> damaged;  // IsolatedState::damaged
};
/// What a file says when it is opened.
struct Opened {
  std::string format;
  struct stat status{};
  Entry root;
  Result<> writable;
};

/// What the process does itself. Errors are those of the functions of a Source.
class WorkerService {
 public:
  /// Once, before all other calls.
  virtual Result<Opened> open(const OpenRequest& request) = 0;
  /// See Source::summaries().
  virtual Result<std::vector<VariableSummary>> summaries(std::span<const ObjectId> variables) = 0;

 protected:
  ~WorkerService() = default;
};

/// What all calls of a kind have in common.
struct CallKind {
  const char* action;        // for messages: "libhdf5 crashes when it reads the object at ..."
  bool is_metadata = false;  // only reads metadata: where libhdf5 reports damage, its memory may be damaged, too
  bool reads_chunk = false;  // by libhdf5, which reads fill values in place of a file that is refused
  bool is_edit = false;      // its number (SharedState::edit) comes before the arguments: it is not made twice
  bool takes_long = false;   // may use much processor time
};
inline constexpr CallKind kOpens{.action = "when it opens", .is_metadata = true};
inline constexpr CallKind kLists{.action = "when it lists", .is_metadata = true};
inline constexpr CallKind kSearches{.action = "when it searches a name in", .is_metadata = true};
inline constexpr CallKind kReadsAttributes{.action = "when it reads the attributes of", .is_metadata = true};
inline constexpr CallKind kReadsMetadata{.action = "when it reads", .is_metadata = true};
inline constexpr CallKind kReads{.action = "when it reads"};
inline constexpr CallKind kLooksUp{.action = "in the chunk index of"};
inline constexpr CallKind kReadsChunk{.action = "when it reads a chunk of", .reads_chunk = true};
inline constexpr CallKind kChanges{.action = "when it changes"};
inline constexpr CallKind kEdits{.action = "when it changes", .is_edit = true};
inline constexpr CallKind kChangesLong{.action = "when it changes", .takes_long = true};

template <auto function, const CallKind& kind_>
struct Row : rpc::Call<function> {
  static constexpr const CallKind& kind = kind_;
};
template <const CallKind& kind, auto... functions>
using Rows = std::tuple<Row<functions, kind>...>;

using Calls = rpc::TableOf<
    Rows<kOpens, &WorkerService::open>,                                                        //
    Rows<kLists, &Source::list, &Source::unreadable_members>, Rows<kSearches, &Source::find>,  //
    Rows<kReadsAttributes, &Source::group_attributes>,
    Rows<kReadsMetadata, &Source::overview, &Source::link_notes, &Source::dimensions, &Source::variable, &Source::facts,
         &Source::variable_attributes, &Source::left_out_attributes, &hdf5::IsolatedSource::layout>,
    Rows<kReads, &Source::missing_sources, &WorkerService::summaries, &Source::variable_writable>,
    Rows<kLooksUp, &Source::stored_chunks, &hdf5::IsolatedSource::places>,
    Rows<kReadsChunk, &Source::fetch_chunk, &Source::read_stored, &hdf5::IsolatedSource::fetch_encoded>,
    Rows<kChanges, &Source::write_chunk, &Source::write_stored, &hdf5::IsolatedSource::write_encoded,
         &hdf5::IsolatedSource::write_many, &Source::remove_chunk, &hdf5::IsolatedSource::seal,
         &Source::begin_writing_to, &Source::change_in_bulk>,
    Rows<kEdits, &Source::make_group, &Source::define_dimensions, &Source::make_variable, &Source::make_link,
         &Source::restore_link, &Source::remove, &Source::rename, &Source::set_attributes, &Source::set_dimensions,
         &Source::set_metadata, &Source::resize>,
    Rows<kChangesLong, &Source::set_filters, &Source::encode_masked_chunks, &Source::reclaimable_bytes, &Source::commit,
         &Source::commit_at_interval, &Source::relocate_log, &Source::finish>>;

/// The number of a call in the table.
enum class Call : uint32_t {};
template <auto function>
inline constexpr Call call_of{Calls::number<function>};
/// kReads of one that is not in the table.
const CallKind& kind_of(Call call);

/// Datagrams over WorkerProcess::control, with the values that follow, and descriptors. They are not answered.
enum class Note : char {
  // daemon -> worker
  start = 's',     // the working directory: enters the sandbox there, and says `started`
  file = 'i',      // with the descriptors of SharedState and NodeJournal; and, of a file in an object store, of its
                   // SharedMirror and of FetchSlots
  channel = 'c',   // with the descriptors of a Channel
  plugin = 'p',    // its path, and its PluginDescription with its name in messages; after `plugins`
  complete = 'e',  // there are no more plugins
  // worker -> daemon
  started = 'n',   // SandboxParts; with the listener and the FileCallEnds if it has them
  log = 'l',       // log::Level, text
  plugins = 'q',   // it needs the plugins that the daemon has accepted
  began = 'w',     // id, with the descriptors of WritingObserver::began()
  ended = 'd',     // id
  fetch = 'f',     // FetchRequest
  progress = 'r',  // id, text: see ProgressReporter::show_remote()
  damage = 'x',    // address, text: an object, or its attributes, in which libhdf5 reports damage; the worker ends,
                   // without an answer if it knows the object
  newer = 'v',     // as `damage`, of an object that a newer version of libhdf5 wrote
};
inline constexpr size_t kLongestPlugin = 60'000;  // bytes of such a note

template <class... Values>
std::string note_of(Note note, const Values&... values) {
  rpc::Encoder out;
  out.put(note);
  (out.put(values), ...);
  return std::move(out.head);
}
/// False if the other end is closed.
template <class... Values>
bool send_note(int control, std::span<const int> fds, Note note, const Values&... values) {
  return send_datagram(control, note_of(note, values...), fds);
}

}  // namespace codecfs::worker

namespace codecfs {

template <>
inline constexpr bool rpc::is_plain<struct stat> = true;
template <>
inline constexpr bool rpc::is_plain<hdf5::DirectoryState> = true;
template <>
inline constexpr bool rpc::is_plain<hdf5::StoredPlace> = true;
template <>
inline constexpr auto rpc::is_valid<log::Level> =
    [](log::Level level) { return level >= log::Level::debug && level <= log::Level::error; };
template <>
inline constexpr auto rpc::fields<Entry> = [](auto& it) { return std::tie(it.name, it.kind, it.object, it.target); };
template <>
inline constexpr auto rpc::is_valid<EntryKind> = [](EntryKind kind) { return kind <= EntryKind::file; };
template <>
inline constexpr auto rpc::fields<UnreadableMember> = [](auto& it) { return std::tie(it.name, it.error); };
template <>
inline constexpr auto rpc::fields<Members> = [](auto& it) { return std::tie(it.entries, it.unreadable); };
template <>
inline constexpr auto rpc::fields<GroupDimension> =
    [](auto& it) { return std::tie(it.name, it.length, it.is_unlimited); };
template <>
inline constexpr auto rpc::fields<DecodedChunk> = [](auto& it) { return std::tie(it.stored_size, it.bytes); };
template <>
inline constexpr auto rpc::fields<filters::EncodedChunk> = [](auto& it) { return std::tie(it.filter_mask, it.bytes); };
template <>
inline constexpr auto rpc::fields<hdf5::FetchedChunk> = [](auto& it) { return std::tie(it.layout, it.encoded); };
template <>
inline constexpr auto rpc::fields<hdf5::StoredPlaces> =
    [](auto& it) { return std::tie(it.layout, it.slot, it.generation, it.places); };
template <>
inline constexpr auto rpc::is_valid<hdf5::StoredPlaces> = [](const hdf5::StoredPlaces& places) {
  return places.slot < std::tuple_size_v<decltype(hdf5::SharedState::generations)>;
};
template <>
inline constexpr auto rpc::fields<hdf5::IsolatedSource::Layout> =
    [](auto& it) { return std::tie(it.number, it.name, it.facts, it.is_direct); };
template <>
inline constexpr auto rpc::is_valid<hdf5::IsolatedSource::Layout> =
    [](const hdf5::IsolatedSource::Layout& layout) { return layout.facts != nullptr; };
template <>
inline constexpr auto rpc::fields<hdf5::IsolatedSource::ManyChunks> =
    [](auto& it) { return std::tie(it.numbers, it.sizes, it.chain, it.filter_masks); };
template <>
inline constexpr auto rpc::fields<VariableSummary> = [](auto& it) {
  return std::tie(it.facts, it.error, it.is_counted, it.stored_chunks, it.stored_bytes, it.masked_chunks);
};
template <>
inline constexpr auto rpc::is_valid<VariableSummary> =
    [](const VariableSummary& summary) { return summary.facts || summary.error; };
template <>
inline constexpr auto rpc::fields<worker::OpenRequest> =
    [](auto& it) { return std::tie(it.path, it.beside, it.may_write, it.latest, it.damaged); };
template <>
inline constexpr auto rpc::fields<worker::Opened> =
    [](auto& it) { return std::tie(it.format, it.status, it.root, it.writable); };

}  // namespace codecfs
