#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "base/buffer.h"
#include "base/error.h"
#include "bind/gil.h"
#include "bind/memory.h"
#include "bind/named.h"
#include "bind/registration.h"
#include "wav/wav.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace spdl::bind {
namespace {

constexpr const char* kHeaderDoc = R"(The header of a WAV file. Read-only.)";

constexpr const char* kArrayDoc = R"(Samples of a WAV file, ``(samples, channels)``, as a view of the file in memory.

Arrays made from it (``to_numpy``, ``to_torch``, ``numpy.asarray``) are views. It keeps the file's memory, which can be
neither freed nor resized as long as it lives; the arrays keep it alive. Samples of 24 bits and big-endian ones are a copy
in memory of its own.)";

constexpr const char* kParseDoc = R"(Read the header of a WAV file of any coding.

Args:
    data: The whole file, as a contiguous buffer.

Raises:
    WAVError: The data is malformed or truncated. It is a ``ValueError``.

Reads a few dozen bytes, and holds the GIL.)";

constexpr const char* kLoadDoc = R"(View the samples of a WAV file in memory.

Args:
    data: The whole file, as a contiguous buffer.
    time_offset_seconds: The start of the view, or None for the beginning.
    duration_seconds: The maximum length of the view, or None for the rest of the file.

Raises:
    WAVError: See ``spdl.io.load_wav``.

Reads a few dozen bytes, and holds the GIL; copies samples without it.)";

std::span<const std::uint8_t> bytes_of(const Export& held) noexcept { return {held.data(), held.size()}; }

// Runs `work` on the memory of `held`; errors name that memory.
template <class Work>
auto named(const Export& held, Work work) {
  try {
    return work();
  } catch (Error& error) {
    error.source = name_of_bytes(held.data());
    throw;
  }
}

class WavArray {
 public:
  // A view of the file.
  WavArray(Export file, const WavHeader& header, const WavSamples& samples)
      : file_(std::move(file)), data_(file_->data() + samples.offset), sample_rate_(header.sample_rate), samples_(samples) {}
  // A copy.
  WavArray(Buffer memory, const WavHeader& header, const WavSamples& samples)
      : memory_(std::move(memory)), data_(memory_.data()), sample_rate_(header.sample_rate), samples_(samples) {}

  nb::tuple shape() const { return nb::make_tuple(samples_.num_samples, samples_.num_channels); }
  std::uint32_t sample_rate() const noexcept { return sample_rate_; }
  const char* typestr() const noexcept { return samples_.typestr; }
  PyObject* exporter() const noexcept { return file_ ? file_->exporter() : nullptr; }

  nb::dict array_interface() const {
    nb::dict interface;
    interface["version"] = 3;
    interface["shape"] = shape();
    interface["typestr"] = samples_.typestr;
    interface["data"] =
        nb::make_tuple(reinterpret_cast<std::uintptr_t>(data_), data_ == nullptr || (file_ && file_->is_readonly()));
    return interface;
  }

  // An empty state that only the garbage collector can see: no memory, no samples.
  void clear() noexcept {
    samples_.num_samples = 0;
    data_ = nullptr;
    file_.reset();
  }

 private:
  std::optional<Export> file_;
  Buffer memory_;
  const std::uint8_t* data_;
  std::uint32_t sample_rate_;
  WavSamples samples_;
};

int traverse(PyObject* self, visitproc visit, void* arg) noexcept {
  Py_VISIT(Py_TYPE(self));
  if (nb::inst_ready(self)) {
    Py_VISIT(nb::inst_ptr<WavArray>(self)->exporter());
  }
  return 0;
}

int clear(PyObject* self) noexcept {
  nb::inst_ptr<WavArray>(self)->clear();
  return 0;
}

PyType_Slot kSlots[] = {
    {Py_tp_traverse, reinterpret_cast<void*>(traverse)},
    {Py_tp_clear, reinterpret_cast<void*>(clear)},
    {0, nullptr},
};

WavHeader parse(const nb::object& data) {
  const Export held(data, false, "data");
  return named(held, [&] { return read_wav_header(bytes_of(held)); });
}

WavArray load(const nb::object& data, std::optional<double> start, std::optional<double> duration) {
  Export held(data, false, "data");
  const WavHeader header = named(held, [&] { return read_wav_header(bytes_of(held)); });
  const WavSamples samples = named(held, [&] { return find_wav_samples(header, start, duration); });
  if (samples.is_view) {
    return {std::move(held), header, samples};
  }
  Buffer copy(std::max<std::size_t>(samples.num_samples * samples.num_channels * samples.element_bytes, 1));
  {
    const GilReleased released;
    copy_wav_samples(header, samples, bytes_of(held), copy.data());
  }
  return {std::move(copy), header, samples};
}

std::string show(const WavHeader& header) {
  return "WAVHeader(audio_format=" + std::to_string(header.audio_format) +
         ", num_channels=" + std::to_string(header.num_channels) +
         ", sample_rate=" + std::to_string(header.sample_rate) + ", byte_rate=" + std::to_string(header.byte_rate) +
         ", block_align=" + std::to_string(header.block_align) +
         ", bits_per_sample=" + std::to_string(header.bits_per_sample) +
         ", data_size=" + std::to_string(header.data_size) + ")";
}

}  // namespace

void register_wav(nb::module_& module) {
  nb::class_<WavHeader>(module, "WAVHeader", kHeaderDoc)
      .def_ro("audio_format", &WavHeader::audio_format, "1: PCM; 3: IEEE float; other values: a compressed coding.")
      .def_ro("num_channels", &WavHeader::num_channels)
      .def_ro("sample_rate", &WavHeader::sample_rate, "In Hz.")
      .def_ro("byte_rate", &WavHeader::byte_rate, "Bytes per second, as stated in the file.")
      .def_ro("block_align", &WavHeader::block_align, "Bytes of one sample of all channels.")
      .def_ro("bits_per_sample", &WavHeader::bits_per_sample)
      .def_ro("data_size", &WavHeader::data_size, "Bytes of all samples.")
      .def("__repr__", &show);
  nb::class_<WavArray>(module, "WAVArray", nb::type_slots(kSlots), nb::is_weak_referenceable(), kArrayDoc)
      .def_prop_ro("shape", &WavArray::shape, nb::sig("def shape(self) -> tuple[int, int]"), "``(samples, channels)``.")
      .def_prop_ro("sample_rate", &WavArray::sample_rate, "In Hz.")
      .def_prop_ro("__array_interface__", &WavArray::array_interface,
                   nb::sig("def __array_interface__(self) -> dict[str, typing.Any]"),
                   "Version 3 of NumPy's array interface.")
      .def("__repr__", [](const WavArray& self) {
        return "WAVArray<shape=" + nb::cast<std::string>(nb::repr(self.shape())) + ", dtype='" + self.typestr() +
               "', sample_rate=" + std::to_string(self.sample_rate()) + ">";
      });
  module.def("parse_wav", &parse, "data"_a.none(),
             nb::sig("def parse_wav(data: typing_extensions.Buffer | numpy.typing.NDArray[typing.Any]) -> WAVHeader"),
             kParseDoc);
  module.def("load_wav", &load, "data"_a.none(), "time_offset_seconds"_a.none(), "duration_seconds"_a.none(),
             nb::sig("def load_wav(data: typing_extensions.Buffer | numpy.typing.NDArray[typing.Any], "
                     "time_offset_seconds: float | None, duration_seconds: float | None) -> WAVArray"),
             kLoadDoc);
}

}  // namespace spdl::bind
