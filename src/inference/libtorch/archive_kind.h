// Detects what kind of file a model file is, by its first bytes and by the names in its ZIP directory.
// LibTorch's own message for a file of weights is only that a record is missing, which does not help the
// user.
#pragma once

#include <string>

namespace headroom::libtorch {

enum class ArchiveKind {
  torchscript,
  checkpoint,        // from torch.save(): weights, or a pickled Python object
  exported_program,  // torch.export.save()
  damaged,           // begins as an archive, but its directory is incomplete
  foreign,
};

// Reads only the beginning, the end and the ZIP directory of the file.
ArchiveKind archive_kind(const std::string& path);

// Throws plugin::Failure if the file is not a TorchScript archive; the message says what it is instead.
void require_torchscript(const std::string& path);

}  // namespace headroom::libtorch
