enable f16;
var<workgroup> shared_v111: array<u32, 256>;
@group(0) @binding(1) var<storage, read_write> v5: array<u32>;
@group(0) @binding(0) var<storage, read> v1: array<vec4<f16>>;
struct info_st { scalars_usize: array<u32, 8>, scalars_i32: array<i32, 2>, static_meta: array<u32, 2> }
@group(0) @binding(2) var<storage, read> info_var: info_st;
@compute @workgroup_size(256, 1, 1)
fn fp8_amax_parts_f16(@builtin(local_invocation_id) v345: vec3<u32>, @builtin(workgroup_id) v350: vec3<u32>, @builtin(num_workgroups) v352: vec3<u32>) {
let v362 = &v5;
let v363 = &v1;
let v3 = u32(0);
let v322 = info_var.static_meta[1];
let v9 = info_var.scalars_usize[0];
let v10 = info_var.scalars_usize[1];
let v11 = info_var.scalars_usize[2];
let v12 = info_var.scalars_usize[3];
let v13 = info_var.scalars_usize[4];
let v14 = info_var.scalars_usize[5];
let v15 = info_var.scalars_usize[6];
let v16 = info_var.scalars_usize[7];
let v351 = v350[2];
let v328 = u32(v351);
let v353 = v352[1];
let v330 = u32(v353);
let v331 = v328 * v330;
let v354 = v352[0];
let v333 = u32(v354);
let v334 = v331 * v333;
let v355 = v350[1];
let v336 = u32(v355);
let v339 = v336 * v333;
let v340 = v334 + v339;
let v357 = v350[0];
let v342 = u32(v357);
let v343 = v340 + v342;
let v19 = u32(1);
let v344 = u32(0);
var<function> v323_store: u32;
let v323 = &v323_store;
*v323 = v344;
let v28 = v343 < v322;
if v28 {
let v29 = v343 / v15;
let v30 = v29 / v14;
let v31 = v30 / v13;
let v32 = v30 % v13;
let v33 = v32 * v11;
let v34 = v29 % v14;
let v35 = v34 * v12;
let v36 = v9 - v33;
let v37 = min(v11, v36);
let v38 = v10 - v35;
let v39 = min(v12, v38);
let v40 = v31 * v9;
let v41 = v40 + v33;
let v42 = v41 * v10;
let v43 = v42 + v35;
let v44 = v343 % v15;
let v45 = v44 * v16;
let v46 = v37 * v39;
let v47 = min(v45, v46);
let v48 = v47 + v16;
let v50 = min(v48, v46);
let v346 = v345[0];
let v52 = u32(v346);
let v53 = v47 + v52;
let v54 = u32(256);
for(var v55: u32 = v53; v55 < v50; v55 += v54) {
let v57 = v55 / v39;
let v58 = v57 * v10;
let v59 = v43 + v58;
let v60 = v55 % v39;
let v61 = v59 + v60;
let v65 = &(*v363)[v61];
let v66 = *v65;
let v67 = v66[0];
let v68 = f32(v67);
let v69 = bitcast<u32>(v68);
let v70 = u32(2147483647);
let v71 = v69 & v70;
let v72 = u32(2139095040);
let v73 = v71 < v72;
let v75 = select(v344, v71, v73);
let v76 = *v323;
let v77 = max(v76, v75);
*v323 = v77;
let v78 = v66[1];
let v79 = f32(v78);
let v80 = bitcast<u32>(v79);
let v82 = v80 & v70;
let v84 = v82 < v72;
let v86 = select(v344, v82, v84);
let v87 = *v323;
let v88 = max(v87, v86);
*v323 = v88;
let v89 = v66[2];
let v90 = f32(v89);
let v91 = bitcast<u32>(v90);
let v93 = v91 & v70;
let v95 = v93 < v72;
let v97 = select(v344, v93, v95);
let v98 = *v323;
let v99 = max(v98, v97);
*v323 = v99;
let v100 = v66[3];
let v101 = f32(v100);
let v102 = bitcast<u32>(v101);
let v104 = v102 & v70;
let v106 = v104 < v72;
let v108 = select(v344, v104, v106);
let v109 = *v323;
let v110 = max(v109, v108);
*v323 = v110;

}

}
let v325 = &shared_v111;
let v347 = v345[0];
let v116 = u32(v347);
let v125 = &(*v325)[v116];
let v126 = *v323;
*v125 = v126;
workgroupBarrier();
let v127 = u32(128);
let v128 = v116 < v127;
if v128 {
let v131 = v116 + v127;
let v135 = &(*v325)[v131];
let v136 = *v135;
let v142 = *v125;
let v143 = max(v142, v136);
*v125 = v143;

}
workgroupBarrier();
let v149 = u32(64);
let v150 = v116 < v149;
if v150 {
let v153 = v116 + v149;
let v157 = &(*v325)[v153];
let v158 = *v157;
let v164 = *v125;
let v165 = max(v164, v158);
*v125 = v165;

}
workgroupBarrier();
let v171 = u32(32);
let v172 = v116 < v171;
if v172 {
let v175 = v116 + v171;
let v179 = &(*v325)[v175];
let v180 = *v179;
let v186 = *v125;
let v187 = max(v186, v180);
*v125 = v187;

}
workgroupBarrier();
let v193 = u32(16);
let v194 = v116 < v193;
if v194 {
let v197 = v116 + v193;
let v201 = &(*v325)[v197];
let v202 = *v201;
let v208 = *v125;
let v209 = max(v208, v202);
*v125 = v209;

}
workgroupBarrier();
let v215 = u32(8);
let v216 = v116 < v215;
if v216 {
let v219 = v116 + v215;
let v223 = &(*v325)[v219];
let v224 = *v223;
let v230 = *v125;
let v231 = max(v230, v224);
*v125 = v231;

}
workgroupBarrier();
let v237 = u32(4);
let v238 = v116 < v237;
if v238 {
let v241 = v116 + v237;
let v245 = &(*v325)[v241];
let v246 = *v245;
let v252 = *v125;
let v253 = max(v252, v246);
*v125 = v253;

}
workgroupBarrier();
let v259 = u32(2);
let v260 = v116 < v259;
if v260 {
let v263 = v116 + v259;
let v267 = &(*v325)[v263];
let v268 = *v267;
let v274 = *v125;
let v275 = max(v274, v268);
*v125 = v275;

}
workgroupBarrier();
let v282 = v116 < v19;
if v282 {
let v285 = v116 + v19;
let v289 = &(*v325)[v285];
let v290 = *v289;
let v296 = *v125;
let v297 = max(v296, v290);
*v125 = v297;

}
workgroupBarrier();
let v306 = &(*v325)[v3];
let v307 = *v306;
let v310 = v347 == v344;
var<function> v326_store: bool;
let v326 = &v326_store;
if v310 {
*v326 = v28;

} else {
let v314 = false;
*v326 = v314;

}
let v315 = *v326;
if v315 {
let v319 = &(*v362)[v343];
*v319 = v307;

}
return;

}
