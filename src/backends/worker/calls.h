#pragma once
// The protocol between the daemon and the process that runs libhdf5 for one file.
//
// Over WorkerProcess::control, datagrams with a letter first:
//   daemon -> worker   's', its working directory, with the descriptors of SharedState and of the NodeJournal;
//                      and, of a file in an object store, of its SharedMirror and of FetchSlots; 'c' with those of a
//                      Channel; after 'q': 'p', for each plugin its path, its name in messages and
//                      its description (codec_messages.h), then 'e'
//   worker -> daemon   'n', SandboxParts (4 bytes), with the listener and the FileCallEnds if it has them: it is in its
//                      sandbox now; the answer to 's'
//                      'l', a log::Level (1 byte), text: a message for the log
//                      'q': it needs the plugins that the daemon has accepted
//                      'w', id (8 bytes), with the descriptors of WritingObserver::began(); 'e', id: ended()
//                      'f', a FetchRequest
//                      'p', id (8 bytes), text: see ProgressReporter::show_remote()
//                      'd', address (8 bytes), text: an object, or its attributes, in which libhdf5 reports damage; the
//                      worker ends, without an answer if it knows the object
//                      'v', the same of one that a newer version of libhdf5 wrote
//
// Over each Channel, one call at a time: Message::kind is a Call, the head and bulk are its arguments (wire.h), the
// answer's are the Result. The first call of the first Channel is Call::open.

#include <cstdint>

namespace codecfs::worker {

inline constexpr uint32_t kLongestPlugin = 60'000;  // bytes of a path and a description

enum class Call : uint32_t {
  open,  // path, may_write, latest, damaged objects -> format, status, root, Result<> of writable()
  list,
  unreadable_members,
  overview,
  find,
  group_attributes,
  link_notes,
  dimensions,
  variable,
  variable_attributes,
  left_out_attributes,
  facts,
  missing_sources,
  locate,
  stored_chunks,
  fetch_chunk,
  read_stored,
  stored_bytes,
  places,
  fetch_encoded,
  layout,
  summaries,
  variable_writable,
  write_chunk,
  write_stored,
  write_encoded,
  write_many,
  remove_chunk,
  seal,
  begin_writing_to,
  change_in_bulk,
  // These begin with the number of the edit (SharedState::edit).
  make_group,
  define_dimensions,
  make_variable,
  make_link,
  restore_link,
  remove,
  rename,
  set_attributes,
  set_dimensions,
  set_metadata,
  resize,
  set_filters,           // reports its progress in CallState
  encode_masked_chunks,  // the same
  reclaimable_bytes,
  commit,
  commit_at_interval,
  relocate_log,
  finish,
};

}  // namespace codecfs::worker
