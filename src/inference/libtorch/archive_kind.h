// What a model file is, told by its first bytes and the names in its ZIP directory. LibTorch itself says of a
// file of weights that a record is missing, which helps nobody who has one.
#pragma once

#include <string>

namespace headroom::libtorch {

enum class ArchiveKind {
  torchscript,
  checkpoint,        // torch.save(): weights, or a pickled Python object
  exported_program,  // torch.export.save()
  damaged,           // begins as an archive and does not end as one
  foreign,
};

// Reads no more than the file's ends and its directory.
ArchiveKind archive_kind(const std::string& path);

// Throws plugin::Failure unless the file is a TorchScript archive, and says what it is instead.
void require_torchscript(const std::string& path);

}  // namespace headroom::libtorch
