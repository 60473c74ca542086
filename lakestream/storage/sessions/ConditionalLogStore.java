package lakestream;

import io.delta.storage.S3SingleDriverLogStore;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.FileAlreadyExistsException;
import java.util.Iterator;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FSDataOutputStreamBuilder;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.s3a.RemoteFileChangedException;

/**
 * The log of a Delta table in a store of S3's protocol, each commit a conditional write. Delta's own class
 * looks first and writes then: it would write over what another process committed in between.
 *
 * Spark's own compiler reads it (stores.py), which knows Java without type arguments.
 */
public class ConditionalLogStore extends S3SingleDriverLogStore {
    private static final String CONDITION = "fs.option.create.conditional.overwrite";

    public ConditionalLogStore(Configuration configuration) {
        super(configuration);
    }

    public void write(Path path, Iterator lines, Boolean overwrite, Configuration configuration)
            throws IOException {
        if (overwrite.booleanValue()) {
            super.write(path, lines, overwrite, configuration);
            return;
        }
        StringBuilder content = new StringBuilder(); // whole before it is begun: what is begun is committed
        while (lines.hasNext()) {
            content.append(lines.next()).append("\n");
        }
        FileSystem files = path.getFileSystem(configuration);
        FSDataOutputStreamBuilder builder = files.createFile(path).overwrite(false);
        builder.must(CONDITION, true);
        try {
            FSDataOutputStream stream = (FSDataOutputStream) builder.build();
            stream.write(content.toString().getBytes(StandardCharsets.UTF_8));
            stream.close();
        } catch (RemoteFileChangedException taken) {
            throw new FileAlreadyExistsException(path.toString());
        } catch (org.apache.hadoop.fs.FileAlreadyExistsException taken) {
            throw new FileAlreadyExistsException(path.toString());
        }
    }
}
