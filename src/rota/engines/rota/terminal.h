/* The terminal of a job's first process, for people who look in: the program at one end of a pseudo-terminal, we
   at the other.  What it prints goes to its log, is kept a while, and is shown to whoever is connected to
   `terminal.sock`: one at a time, the newest.  The program waits for a slow viewer, not for one that takes nothing.

   A viewer says, one message each: `V` and the place from which it wants to see (it gets the place from which it
   can, as one message of digits), `D` and what is typed, `W` and rows and columns.  All else that it gets was printed.

   Included by shim.c; `shim.py` does the same in its `Terminal`. */

enum { MOST_RECENT = 1 << 15, MOST_TYPED = 1 << 14, MOST_SHOWN = 1 << 14 };
static const double VIEWER_S = 10.0, LAST_WORDS_S = 2.0;

static int terminal = -1, listener = -1, viewer = -1;
static char recent[MOST_RECENT]; /* around a ring */
static long long printed;        /* bytes since it began: places are counted in them */
static char typed[MOST_TYPED], unseen[MOST_RECENT + (1 << 17)];
static size_t typed_size, unseen_size;
static double unseen_since_s;
static bool is_placed; /* the viewer has said from where on, and was told: nothing is shown before */

static void drop_viewer(void) {
    if (viewer >= 0) close(viewer);
    viewer = -1, unseen_size = typed_size = 0, is_placed = false;
}

static void show_on(void) {
    while (viewer >= 0 && unseen_size) {
        size_t size = unseen_size < MOST_SHOWN ? unseen_size : MOST_SHOWN;
        ssize_t sent = send(viewer, unseen, size, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (sent < 0 && (errno == EAGAIN || errno == EINTR || errno == ENOBUFS)) break;
        if (sent < 0) return drop_viewer();
        memmove(unseen, unseen + sent, unseen_size -= sent);
        unseen_since_s = seconds(CLOCK_MONOTONIC);
    }
    if (unseen_size && seconds(CLOCK_MONOTONIC) - unseen_since_s > VIEWER_S) drop_viewer();
}

static void to_viewer(const char *data, size_t size) {
    if (viewer < 0 || !is_placed) return;
    if (unseen_size + size > sizeof unseen) return drop_viewer();
    if (!unseen_size) unseen_since_s = seconds(CLOCK_MONOTONIC);
    memcpy(unseen + unseen_size, data, size), unseen_size += size;
}

/* The program has printed something. */
static void show(const char *data, size_t size) {
    for (size_t i = 0; i < size; i++) recent[printed++ % MOST_RECENT] = data[i];
    to_viewer(data, size);
    show_on();
}

/* A viewer wants to see what was printed from a place on. */
static void begin_to_show(const char *said) {
    long long kept = printed < MOST_RECENT ? printed : MOST_RECENT, from = atoll(said);
    if (from < printed - kept || from > printed) from = printed - kept;
    char *place = text("%lld", from);
    bool is_told = send(viewer, place, strlen(place), MSG_DONTWAIT | MSG_NOSIGNAL) > 0;
    free(place);
    if (!is_told) return drop_viewer();
    is_placed = true;
    for (unseen_size = 0; from < printed; from++) to_viewer(&recent[from % MOST_RECENT], 1);
    show_on();
}

static void type_on(void) {
    if (terminal < 0) typed_size = 0;
    if (!typed_size) return;
    ssize_t wrote = write(terminal, typed, typed_size);
    if (wrote > 0) memmove(typed, typed + wrote, typed_size -= wrote);
}

static void resize(const char *said) {
    struct winsize size = {0};
    if (sscanf(said, "%hu %hu", &size.ws_row, &size.ws_col) == 2 && terminal >= 0) ioctl(terminal, TIOCSWINSZ, &size);
}

static void hear_viewer(void) {
    char said[MOST_TYPED + 1];
    ssize_t size = recv(viewer, said, MOST_TYPED, MSG_DONTWAIT);
    if (size < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (size <= 0) return drop_viewer();
    said[size] = 0;
    if (*said == 'V') begin_to_show(said + 1);
    if (*said == 'W') resize(said + 1);
    if (*said == 'D') memcpy(typed, said + 1, typed_size = size - 1), type_on();
}

static void welcome(void) {
    int newest = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    if (newest < 0) return;
    drop_viewer();
    viewer = newest;
}

/* What to wait for at the program's end, and at the viewer's. */
static short terminal_events(void) { return (unseen_size ? 0 : POLLIN) | (typed_size ? POLLOUT : 0); }
static short viewer_events(void) { return (typed_size ? 0 : POLLIN) | (unseen_size ? POLLOUT : 0); }

static void tend_viewer(short at_viewer, short at_listener) {
    if (at_viewer & (POLLIN | POLLHUP | POLLERR)) hear_viewer();
    if (viewer >= 0) show_on();
    if (at_listener) welcome();
}

/* Whoever looks in at the end gets the last of it, unless that takes too long. */
static void last_words(void) {
    double until_s = seconds(CLOCK_MONOTONIC) + LAST_WORDS_S;
    while (viewer >= 0 && unseen_size && seconds(CLOCK_MONOTONIC) < until_s) {
        struct pollfd taken = {viewer, POLLOUT, 0};
        poll(&taken, 1, 100);
        show_on();
    }
    if (unseen_size) drop_viewer();
}

/* Where viewers connect: in the attempt's folder, whose path may be too long for an address. */
static int listen_in(const char *where) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int above = open(where, O_PATH | O_DIRECTORY | O_CLOEXEC);
    int made = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    snprintf(address.sun_path, sizeof address.sun_path, "/proc/self/fd/%d/terminal.sock", above);
    mode_t mask = umask(0177); /* ours alone, also where its user may enter the folder */
    bool is_ready = above >= 0 && made >= 0 && !bind(made, (struct sockaddr *)&address, sizeof address)
                    && !listen(made, 4);
    umask(mask);
    int why = errno;
    if (above >= 0) close(above);
    if (!is_ready && made >= 0) close(made);
    errno = why;
    return is_ready ? made : -1;
}

/* A terminal for a program, whose end of it is returned; -1 with `errno` set. */
static int open_terminal(const char *where, bool is_others, uid_t owner) {
    struct winsize size = {.ws_row = 24, .ws_col = 80};
    struct termios mode;
    char name[64];
    terminal = posix_openpt(O_RDWR | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
    if (terminal < 0 || unlockpt(terminal) || ptsname_r(terminal, name, sizeof name)) return -1;
    int theirs = open(name, O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (theirs < 0 || tcgetattr(theirs, &mode)) return -1;
    mode.c_iflag |= IUTF8;
    if (tcsetattr(theirs, TCSANOW, &mode) || ioctl(theirs, TIOCSWINSZ, &size)) return -1;
    if (fchmod(theirs, 0600) || (is_others && fchown(theirs, owner, -1))) return -1;
    listener = listen_in(where);
    return listener < 0 ? -1 : theirs;
}
