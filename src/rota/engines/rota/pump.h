/* What a rank writes goes through the shim where a file of its user's choice takes it as well, or where files
   have a limit: the beginning and the end of it are kept, and what is left out between is counted.

   Included by shim.c; `shim.py` does the same in its `Sink` and `Pump`. */

enum { PIECE = 1 << 16, MOST_TAIL = 1 << 16 };

typedef struct {
    char *path; /* NULL for a log of ours */
    int fd;
    bool is_limited;
    long long limit, room, dropped, lost; /* bytes: `lost` those that the file did not take, `why` as errno */
    int why;
    char *tail; /* the last of what there was no room for, around a ring */
    size_t tail_size, tail_at;
} Sink;

typedef struct {
    int fd; /* of a pipe; -1 once all its writers are gone */
    Sink *sinks[2];
} Pump;

static Pump *pumps;
static int pump_count;

static bool is_terminal(const Pump *one) { return one->fd >= 0 && one->fd == terminal; }

static void write_all(Sink *sink, const char *data, size_t size) {
    while (size) {
        ssize_t wrote = write(sink->fd, data, size);
        if (wrote < 0 && errno == EINTR) continue;
        if (wrote < 0) { /* the disk is full: the program goes on */
            sink->lost += size, sink->why = errno;
            return;
        }
        data += wrote, size -= wrote;
    }
}

static Sink *sink_of(char *path, int fd, long long limit) {
    Sink *sink = room_for(1, sizeof *sink);
    struct stat status;
    sink->path = path, sink->fd = fd, sink->limit = limit, sink->is_limited = limit > 0;
    if (!sink->is_limited) return sink;
    long long has = fstat(fd, &status) ? 0 : status.st_size;
    sink->tail_size = limit / 4 < MOST_TAIL ? limit / 4 : MOST_TAIL;
    sink->tail = room_for(sink->tail_size, 1);
    sink->room = limit - (long long)sink->tail_size - has;
    if (sink->room < 0) sink->room = 0;
    return sink;
}

static void put(Sink *sink, const char *data, size_t size) {
    if (!sink->is_limited) return write_all(sink, data, size);
    size_t head = (long long)size < sink->room ? size : (size_t)sink->room;
    write_all(sink, data, head);
    sink->room -= head, sink->dropped += size - head;
    for (size_t i = head; i < size && sink->tail_size; i++) sink->tail[sink->tail_at++ % sink->tail_size] = data[i];
}

/* Nothing more comes: say how much is missing, and write the end of it. */
static void finish_sink(Sink *sink) {
    size_t kept = sink->tail_at < sink->tail_size ? sink->tail_at : sink->tail_size;
    if (sink->dropped > (long long)kept)
        dprintf(sink->fd, "\nrota: %lld bytes are left out here: this file may have %lld\n", sink->dropped - kept,
                sink->limit);
    for (size_t i = sink->tail_at - kept; i < sink->tail_at; i++) write_all(sink, &sink->tail[i % sink->tail_size], 1);
    sink->tail_at = 0, sink->dropped = 0;
}

/* Say in the rank's log how much its files did not take. */
static void tell_lost(const Pump *one) {
    for (int i = 0; i < 2; i++) {
        Sink *sink = one->sinks[i];
        if (!sink || !sink->lost) continue;
        char *name = sink->path ? text("the output file '%s'", sink->path) : "this log";
        dprintf(one->sinks[0]->fd, "\nrota: %lld bytes of %s could not be written: %s\n", sink->lost, name, strerror(sink->why));
        sink->lost = 0;
    }
}

/* All that is there now; false once nothing will come any more. */
static bool pump(Pump *one) {
    static char piece[PIECE];
    ssize_t got = read(one->fd, piece, sizeof piece);
    if (got < 0 && errno == EIO && is_terminal(one)) got = 0; /* nobody has the other end any more */
    if (got < 0) return true;
    for (int i = 0; i < 2; i++)
        if (got && one->sinks[i]) put(one->sinks[i], piece, got);
    if (is_terminal(one)) got ? show(piece, got) : (void)(terminal = -1);
    if (!got) close(one->fd), one->fd = -1;
    return got > 0;
}

/* The ranks and all that they left behind are gone: what they wrote last. */
static void drain(void) {
    for (Pump *one = pumps; one < pumps + pump_count; one++) {
        struct pollfd there = {one->fd, POLLIN, 0};
        while (one->fd >= 0 && poll(&there, 1, 0) > 0 && pump(one)) last_words();
    }
    last_words();
    for (Pump *one = pumps; one < pumps + pump_count; one++)
        for (int i = 0; i < 2; i++)
            if (one->sinks[i]) finish_sink(one->sinks[i]); /* twice is as once */
    for (Pump *one = pumps; one < pumps + pump_count; one++) tell_lost(one);
}
