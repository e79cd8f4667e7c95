// kernels/rnn_cells.h: the cells, for the element type T with its functions SIGMOID and TANH.
// Included by kernels/rnn.c for float and by rnn_f64.c for double. Copies of the arguments keep the
// compiler from thinking that a store may change them.

static void tanh_step(const struct rnn_step *from)
{
    const struct rnn_step s = *from;
    T *gate = s.gate, *out = s.out;
    VECTOR_LOOP
    for (int64_t i = 0; i < s.rows * s.h; i++)
        out[i] = gate[i] = TANH(gate[i]);
}

static void tanh_step_grad(const struct rnn_step_grad *from)
{
    const struct rnn_step_grad s = *from;
    const T *gate = s.gate, *g_out = s.g_out;
    T *g_gate = s.g_gate;
    VECTOR_LOOP
    for (int64_t i = 0; i < s.rows * s.h; i++)
        g_gate[i] = g_out[i] * (1 - gate[i] * gate[i]);
}

static void relu_step(const struct rnn_step *from)
{
    const struct rnn_step s = *from;
    T *gate = s.gate, *out = s.out;
    VECTOR_LOOP
    for (int64_t i = 0; i < s.rows * s.h; i++)
        out[i] = gate[i] = gate[i] > 0 || gate[i] != gate[i] ? gate[i] : 0;
}

static void relu_step_grad(const struct rnn_step_grad *from)
{
    const struct rnn_step_grad s = *from;
    const T *gate = s.gate, *g_out = s.g_out;
    T *g_gate = s.g_gate;
    VECTOR_LOOP
    for (int64_t i = 0; i < s.rows * s.h; i++)
        g_gate[i] = gate[i] <= 0 ? 0 : g_out[i];
}

static void gru_step(const struct rnn_step *from)
{
    const struct rnn_step s = *from;
    const int64_t h = s.h;
    const T *bias = s.hidden_bias;
    for (int64_t row = 0; row < s.rows; row++) {
        T *gate = (T *)s.gate + 3 * row * h, *state = (T *)s.state + row * h;
        T *out = (T *)s.out + row * h;
        const T *hidden = (const T *)s.hidden + 3 * row * h,
                *h_prev = (const T *)s.h_prev + row * h;
        VECTOR_LOOP
        for (int64_t j = 0; j < h; j++) {
            const T reset = SIGMOID(gate[j] + hidden[j]);
            const T update = SIGMOID(gate[h + j] + hidden[h + j]);
            const T part = hidden[2 * h + j] + bias[j];
            const T fresh = TANH(gate[2 * h + j] + reset * part);
            gate[j] = reset;
            gate[h + j] = update;
            gate[2 * h + j] = fresh;
            state[j] = part;
            out[j] = fresh + update * (h_prev[j] - fresh);
        }
    }
}

static void gru_step_grad(const struct rnn_step_grad *from)
{
    const struct rnn_step_grad s = *from;
    const int64_t h = s.h;
    for (int64_t row = 0; row < s.rows; row++) {
        const T *gate = (const T *)s.gate + 3 * row * h, *state = (const T *)s.state + row * h;
        const T *h_prev = (const T *)s.h_prev + row * h;
        T *g_out = (T *)s.g_out + row * h, *g_gate = (T *)s.g_gate + 3 * row * h;
        T *g_hidden = (T *)s.g_hidden + 3 * row * h;
        VECTOR_LOOP
        for (int64_t j = 0; j < h; j++) {
            const T reset = gate[j], update = gate[h + j], fresh = gate[2 * h + j], g = g_out[j];
            const T g_fresh = g * (1 - update) * (1 - fresh * fresh);
            const T g_reset = g_fresh * state[j] * reset * (1 - reset);
            const T g_update = g * (h_prev[j] - fresh) * update * (1 - update);
            g_gate[j] = g_hidden[j] = g_reset;
            g_gate[h + j] = g_hidden[h + j] = g_update;
            g_gate[2 * h + j] = g_fresh;
            g_hidden[2 * h + j] = g_fresh * reset;
            g_out[j] = g * update;
        }
    }
}

static void lstm_step(const struct rnn_step *from)
{
    const struct rnn_step s = *from;
    const int64_t h = s.h;
    for (int64_t row = 0; row < s.rows; row++) {
        T *gate = (T *)s.gate + 4 * row * h, *cell = (T *)s.state + row * h,
          *out = (T *)s.out + row * h;
        const T *c_prev = (const T *)s.c_prev + row * h;
        VECTOR_LOOP
        for (int64_t j = 0; j < h; j++) {
            const T in = SIGMOID(gate[j]), forget = SIGMOID(gate[h + j]);
            const T fresh = TANH(gate[2 * h + j]), open = SIGMOID(gate[3 * h + j]);
            const T c = forget * c_prev[j] + in * fresh;
            gate[j] = in;
            gate[h + j] = forget;
            gate[2 * h + j] = fresh;
            gate[3 * h + j] = open;
            cell[j] = c;
            out[j] = open * TANH(c);
        }
    }
}

static void lstm_step_grad(const struct rnn_step_grad *from)
{
    const struct rnn_step_grad s = *from;
    const int64_t h = s.h;
    for (int64_t row = 0; row < s.rows; row++) {
        const T *gate = (const T *)s.gate + 4 * row * h, *cell = (const T *)s.state + row * h;
        const T *c_prev = (const T *)s.c_prev + row * h, *g_out = (const T *)s.g_out + row * h;
        T *g_cell = (T *)s.g_state + row * h, *g_gate = (T *)s.g_gate + 4 * row * h;
        VECTOR_LOOP
        for (int64_t j = 0; j < h; j++) {
            const T in = gate[j], forget = gate[h + j], fresh = gate[2 * h + j];
            const T open = gate[3 * h + j], t = TANH(cell[j]), g = g_out[j];
            const T gc = g_cell[j] + g * open * (1 - t * t);
            g_gate[j] = gc * fresh * in * (1 - in);
            g_gate[h + j] = gc * c_prev[j] * forget * (1 - forget);
            g_gate[2 * h + j] = gc * in * (1 - fresh * fresh);
            g_gate[3 * h + j] = g * t * open * (1 - open);
            g_cell[j] = gc * forget;
        }
    }
}

static const rnn_step_fn rnn_steps[RNN_N_KINDS] = {
    [RNN_TANH] = tanh_step, [RNN_RELU] = relu_step, [RNN_GRU] = gru_step, [RNN_LSTM] = lstm_step};
static const rnn_step_grad_fn rnn_step_grads[RNN_N_KINDS] = {[RNN_TANH] = tanh_step_grad,
                                                             [RNN_RELU] = relu_step_grad,
                                                             [RNN_GRU] = gru_step_grad,
                                                             [RNN_LSTM] = lstm_step_grad};
