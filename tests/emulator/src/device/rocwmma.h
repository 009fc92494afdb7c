// rocWMMA's fragments are used like CUDA's.
namespace rocwmma { using namespace nvcuda::wmma; }
