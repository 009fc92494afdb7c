@group(0) @binding(4) var<storage, read_write> v17: array<f32>;
@group(0) @binding(3) var<storage, read> v13: array<f32>;
@group(0) @binding(2) var<storage, read> v9: array<u32>;
@group(0) @binding(1) var<storage, read> v5: array<u32>;
@group(0) @binding(0) var<storage, read> v1: array<f32>;
struct info_st { scalars_usize: array<u32, 8>, static_meta: array<u32, 6> }
@group(0) @binding(5) var<storage, read> info_var: info_st;
@compute @workgroup_size(64, 1, 1)
fn grouped_gemm_naive_f32_sorted_in_out(@builtin(workgroup_id) v120: vec3<u32>, @builtin(local_invocation_id) v124: vec3<u32>) {
let v126 = &v17;
let v127 = &v13;
let v128 = &v9;
let v129 = &v5;
let v130 = &v1;
let v3 = u32(0);
let v21 = info_var.scalars_usize[0];
let v22 = info_var.scalars_usize[1];
let v27 = info_var.scalars_usize[6];
let v28 = info_var.scalars_usize[7];
let v121 = v120[0];
let v30 = u32(v121);
let v31 = u32(3);
let v32 = v30 * v31;
let v36 = &(*v128)[v32];
let v37 = *v36;
let v38 = u32(v37);
let v39 = u32(1);
let v40 = v32 + v39;
let v44 = &(*v128)[v40];
let v45 = *v44;
let v46 = u32(v45);
let v122 = v120[1];
let v123 = u32(64);
let v57 = v122 * v123;
let v125 = v124[0];
let v59 = v57 + v125;
let v60 = u32(v59);
let v61 = v38 >= v27;
let v62 = v38 < v28;
let v63 = v61 && v62;
let v64 = v60 < v21;
let v65 = v63 && v64;
if v65 {
let v66 = v46 * v22;
let v67 = f32(1.0);
var<function> v116_store: f32;
let v116 = &v116_store;
*v116 = v67;
let v70 = v38 - v27;
let v71 = v70 * v22;
let v72 = v71 * v21;
let v73 = v72 + v60;
let v74 = f32(0.0);
var<function> v117_store: f32;
let v117 = &v117_store;
*v117 = v74;
for(var v79: u32 = v3; v79 < v22; v79 += v39) {
let v81 = v66 + v79;
let v85 = &(*v130)[v81];
let v86 = *v85;
let v87 = v79 * v21;
let v88 = v73 + v87;
let v92 = &(*v127)[v88];
let v93 = *v92;
let v94 = *v117;
let v95 = fma(v86, v93, v94);
*v117 = v95;

}
var<function> v119_store: f32;
let v119 = &v119_store;
let v97 = *v117;
*v119 = v97;
let v98 = *v119;
let v101 = *v116;
let v102 = v101 * v98;
*v116 = v102;
let v103 = *v116;
let v104 = v46 * v21;
let v105 = v104 + v60;
let v109 = &(*v126)[v105];
*v109 = v103;

}
return;

}
