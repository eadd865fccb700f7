package gateway

import "sync"

// bufferSize is the size of the buffers in which bodies of answers are copied, that of
// httputil.ReverseProxy without a pool.
const bufferSize = 32 << 10

// buffers is a pool of buffers (httputil.BufferPool). A buffer may hold what another answer left in it;
// only bytes that were just read into it are sent.
type buffers struct{ pool sync.Pool }

// Get implements httputil.BufferPool.
func (b *buffers) Get() []byte {
	if buffer, ok := b.pool.Get().(*[bufferSize]byte); ok {
		return buffer[:]
	}
	return make([]byte, bufferSize)
}

// Put implements httputil.BufferPool.
func (b *buffers) Put(buffer []byte) { b.pool.Put((*[bufferSize]byte)(buffer)) }
